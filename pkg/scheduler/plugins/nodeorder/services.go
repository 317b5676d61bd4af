// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// defaultSelector returns the selector of the pods from which Kubernetes' default constraints spread the pod. It
// combines the selectors of the pod's Services and of its ReplicaSet, ReplicationController or StatefulSet. It is
// empty if the pod has none of these.
//
// Kubernetes' helper computes the selector. The helper checks all given Services, and a namespace may have one for
// each job. So it gets only Services that may select the pod. It is not called if neither Services nor the pod's
// controller can select the pod.
func (s *spread) defaultSelector(p *v1.Pod) labels.Selector {
	services := s.servicesOf(p)
	if len(services) == 0 && !maySelectPods(metav1.GetControllerOfNoCopy(p)) {
		return labels.Everything()
	}
	core, apps := s.factory.Core().V1(), s.factory.Apps().V1()
	return helper.DefaultSelector(p, serviceLister{services: services},
		core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
}

// maySelectPods reports whether helper.DefaultSelector of Kubernetes uses selectors of the controller's kind.
func maySelectPods(controller *metav1.OwnerReference) bool {
	if controller == nil {
		return false
	}
	switch controller.APIVersion {
	case v1.SchemeGroupVersion.String():
		return controller.Kind == "ReplicationController"
	case appsv1.SchemeGroupVersion.String():
		return controller.Kind == "ReplicaSet" || controller.Kind == "StatefulSet"
	default:
		return false
	}
}

// servicesOf returns the Services of the pod's namespace that may select the pod. Other Services cannot select it.
func (s *spread) servicesOf(p *v1.Pod) []*v1.Service {
	index, ok := s.services[p.Namespace]
	if !ok {
		services, err := s.factory.Core().V1().Services().Lister().Services(p.Namespace).List(labels.Everything())
		if err != nil { // Kubernetes' helper ignores this error, too
			return nil
		}
		index = newServiceIndex(services)
		s.services[p.Namespace] = index
	}
	if len(index) == 0 {
		return nil
	}
	var found []*v1.Service
	for key, value := range p.Labels {
		found = append(found, index[label{key, value}]...)
	}
	return found
}

type label struct{ key, value string }

// serviceIndex has the Services of a namespace. Each Service is listed under only one label of its selector: the
// label under which the fewest other Services are listed.
type serviceIndex map[label][]*v1.Service

func newServiceIndex(services []*v1.Service) serviceIndex {
	index := serviceIndex{}
	for _, service := range services {
		var rarest label
		fewest := -1
		for key, value := range service.Spec.Selector {
			if l := (label{key, value}); fewest < 0 || len(index[l]) < fewest {
				rarest, fewest = l, len(index[l])
			}
		}
		if fewest >= 0 { // a Service without a selector selects nothing
			index[rarest] = append(index[rarest], service)
		}
	}
	return index
}

// serviceLister is a ServiceLister that returns the given Services for every namespace.
type serviceLister struct {
	corelisters.ServiceLister
	services []*v1.Service
}

// Services implements corelisters.ServiceLister.
func (l serviceLister) Services(string) corelisters.ServiceNamespaceLister {
	return namespaceLister{services: l.services}
}

type namespaceLister struct {
	corelisters.ServiceNamespaceLister
	services []*v1.Service
}

// List implements corelisters.ServiceNamespaceLister.
func (l namespaceLister) List(labels.Selector) ([]*v1.Service, error) { return l.services, nil }
