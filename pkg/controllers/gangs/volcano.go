// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/controllers/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// podKeys are the annotations and labels that are copied unchanged from a pod to its PodGroup. Upstream's controller
// copies the same keys.
var podKeys = []string{
	v1beta1.PodPreemptable, v1beta1.CooldownTime, v1beta1.RevocableZone, v1beta1.JDBMinAvailable, v1beta1.JDBMaxUnavailable,
}

// desired holds the desired fields of the Volcano PodGroup. All other fields are left unchanged.
type desired struct {
	minMember     int32
	queue         string // the queue stays unchanged if this is empty
	priorityClass string
	minResources  corev1.ResourceList
	topology      *v1beta1.NetworkTopologySpec
	annotations   map[string]string
	labels        map[string]string
	owners        []metav1.OwnerReference
}

// upper reports whether an annotation of a user's object, or of a workload, is copied to the gang's Volcano PodGroup.
// Annotations that only controllers and schedulers write are not copied.
func upper(key string) bool {
	switch {
	case podgroup.IsOurs(key):
		return !strings.HasPrefix(key, prefix)
	default:
		return strings.HasPrefix(key, v1beta1.AnnotationPrefix) && key != api.JobAllocatedHyperNode
	}
}

// managed reports whether the controller removes the annotation from the Volcano PodGroup when neither the gang's
// object nor its pods have the annotation.
func managed(key string) bool {
	return podgroup.IsOurs(key) && upper(key) || key == gangs.SourceAnnotation || key == schedulerAnnotation || key == messageAnnotation ||
		slices.Contains(settingKeys, key) || slices.Contains(podKeys, key)
}

// fromPod copies fields from a pod: the same fields that upstream's controller copies from a pod to its PodGroup.
func (w *desired) fromPod(pod *corev1.Pod) {
	w.priorityClass = pod.Spec.PriorityClassName
	w.topology = topologyOf(pod)
	for _, key := range podKeys {
		if value, ok := pod.Annotations[key]; ok {
			w.annotations[key] = value
		}
	}
	if w.annotations[v1beta1.JDBMinAvailable] != "" {
		delete(w.annotations, v1beta1.JDBMaxUnavailable)
	}
	for _, key := range []string{v1beta1.PodPreemptable, v1beta1.CooldownTime} {
		if value, ok := pod.Labels[key]; ok {
			w.labels[key] = value
		}
	}
}

// fromGroup copies the fields that the Volcano PodGroup has got from earlier members. It is used for a gang without
// members.
func (w *desired) fromGroup(group *v1beta1.PodGroup) {
	w.priorityClass, w.topology = group.Spec.PriorityClassName, group.Spec.NetworkTopology
	for _, key := range podKeys {
		if value, ok := group.Annotations[key]; ok {
			w.annotations[key] = value
		}
	}
}

func topologyOf(pod *corev1.Pod) *v1beta1.NetworkTopologySpec {
	mode, hasMode := pod.Annotations[topology.NetworkTopologyModeAnnotationKey]
	tier, hasTier := pod.Annotations[topology.NetworkTopologyHighestTierAnnotationKey]
	if !hasMode && !hasTier {
		return nil
	}
	spec := &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode}
	if strings.EqualFold(mode, string(v1beta1.SoftNetworkTopologyMode)) {
		spec.Mode = v1beta1.SoftNetworkTopologyMode
	}
	if n, err := strconv.Atoi(tier); err == nil {
		spec.HighestTierAllowed = &n
	}
	return spec
}

// maxAskedFor limits the total of each resource in the gang's minResources (askedFor). It is more than any gang needs,
// and still fits into an int64 if it is multiplied by 1000.
const maxAskedFor = math.MaxInt64 / 1000

// askedFor returns the sum of the requests of the first minMember members. If fewer members exist, each missing member
// counts with the requests of the first member.
func askedFor(members []*corev1.Pod, minMember int32) corev1.ResourceList {
	if len(members) == 0 {
		return nil
	}
	sum := corev1.ResourceList{}
	add := func(pod *corev1.Pod, times int64) {
		for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			quantity.Mul(times)
			total := sum[name]
			total.Add(quantity)
			if total.CmpInt64(maxAskedFor) > 0 {
				total = *resource.NewQuantity(maxAskedFor, total.Format)
			}
			sum[name] = total
		}
	}
	there := members[:min(len(members), int(minMember))]
	for _, pod := range there {
		add(pod, 1)
	}
	add(there[0], int64(minMember)-int64(len(there)))
	return sum
}

// apply returns a copy of the Volcano PodGroup with the desired fields. inherited are annotations of workloads that own the
// gang's pods.
func (w *desired) apply(group *v1beta1.PodGroup, inherited map[string]string) *v1beta1.PodGroup {
	group = group.DeepCopy()
	if !equality.Semantic.DeepEqual(group.OwnerReferences, w.owners) {
		group.OwnerReferences = w.owners
	}
	annotations := maps.Clone(group.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return managed(key) })
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range inherited {
		if upper(key) {
			annotations[key] = value
		}
	}
	maps.Copy(annotations, w.annotations)
	group.Annotations = annotations
	for key, value := range w.labels {
		metav1.SetMetaDataLabel(&group.ObjectMeta, key, value)
	}
	group.Spec.MinMember = w.minMember
	if w.queue != "" {
		group.Spec.Queue = w.queue
	}
	group.Spec.PriorityClassName = w.priorityClass
	group.Spec.NetworkTopology = w.topology
	if w.minResources == nil {
		group.Spec.MinResources = nil
	} else if group.Spec.MinResources == nil || !equality.Semantic.DeepEqual(*group.Spec.MinResources, w.minResources) {
		group.Spec.MinResources = &w.minResources
	}
	return group
}

// settled reports whether the Volcano PodGroup already has the desired fields, without reading workloads. It returns
// false if the PodGroup has annotations of this project that are inherited from workloads. The caller then reads the
// workloads.
func (w *desired) settled(group *v1beta1.PodGroup) bool {
	return equality.Semantic.DeepEqual(group, w.apply(group, nil))
}
