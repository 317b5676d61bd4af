// SPDX-License-Identifier: Apache-2.0

// Package jobs makes upstream's job-controller notice each admitted PodGroup, even if its informer missed the
// admission.
package jobs

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/apis/pkg/client/informers/externalversions/scheduling"
	schedulinginformers "volcano.sh/apis/pkg/client/informers/externalversions/scheduling/v1beta1"
)

// ControllerName is the name of upstream's job-controller.
const ControllerName = "job-controller"

// Factory returns the informers for upstream's job-controller. The job-controller creates the pods of a Job when the
// phase of the Job's PodGroup changes to Inqueue. It ignores PodGroups that its informer adds. After an outage of the
// API server, the informer may add a PodGroup that already has the phase Inqueue, and the Job would stay Pending
// forever. So the informers from this factory report an additional change from Pending to Inqueue after such an
// addition.
func Factory(of vcinformers.SharedInformerFactory) vcinformers.SharedInformerFactory {
	return &factory{of}
}

type factory struct {
	vcinformers.SharedInformerFactory
}

func (f *factory) Scheduling() scheduling.Interface {
	return &group{f.SharedInformerFactory.Scheduling()}
}

type group struct{ scheduling.Interface }

func (g *group) V1beta1() schedulinginformers.Interface { return &version{g.Interface.V1beta1()} }

type version struct{ schedulinginformers.Interface }

func (v *version) PodGroups() schedulinginformers.PodGroupInformer {
	return &podGroups{v.Interface.PodGroups()}
}

type podGroups struct {
	schedulinginformers.PodGroupInformer
}

func (p *podGroups) Informer() cache.SharedIndexInformer {
	return &informer{p.PodGroupInformer.Informer()}
}

type informer struct{ cache.SharedIndexInformer }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(&phases{handler})
}

// phases is an event handler that also calls OnUpdate when a Job's PodGroup is added in phase Inqueue, with a change
// from Pending. Other phases need no such call. Jobs with pods are reconciled when the Jobs themselves are added. For
// phase Unknown, the job-controller would run the Job's policies again at each start.
type phases struct{ cache.ResourceEventHandler }

// OnAdd implements cache.ResourceEventHandler.
func (p *phases) OnAdd(object any, initial bool) {
	p.ResourceEventHandler.OnAdd(object, initial)
	added, ok := object.(*v1beta1.PodGroup)
	if !ok || added.Status.Phase != v1beta1.PodGroupInqueue || !ofVolcanoJob(added) {
		return
	}
	before := added.DeepCopy()
	before.Status.Phase = v1beta1.PodGroupPending
	p.OnUpdate(before, added)
}

func ofVolcanoJob(podGroup *v1beta1.PodGroup) bool {
	return slices.ContainsFunc(podGroup.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == batchv1alpha1.SchemeGroupVersion.String() && owner.Kind == "Job"
	})
}
