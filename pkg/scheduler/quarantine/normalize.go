// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Trim makes informers drop fields that the scheduler does not read, and limit quantities to values that do not
// overflow.
//
// Managed fields are a large part of a pod, and every garbage collection scans them. If the scheduler updates an object
// without managed fields, the API server keeps its own. The scheduler never writes the requests of pods or the
// resources of nodes, so a limited value does not reach the API server. It may write the corrected phase of a pod
// without a node. Pods on nodes lose the fields that only the kubelet needs (dropProcess). Affinity terms of pods on
// nodes, and annotations and sub-group policies of PodGroups, are cut at limits. Each object is also passed to the
// function count, which may change the requests of a pod and the resources of a node.
func Trim(count func(object any), informers ...toolscache.SharedIndexInformer) {
	trimmed := func(object any) (any, error) {
		count(object)
		return Trimmed(object)
	}
	for _, informer := range informers {
		if err := informer.SetTransform(trimmed); err != nil {
			klog.Background().WithName("quarantine").Error(err, "Setting the transform of an informer failed") // the informer has already started
		}
	}
}

// Trimmed makes the changes of Trim on one object, without calling count, and returns the object. The error is always
// nil.
func Trimmed(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	switch object := object.(type) {
	case *v1.Pod:
		trimPod(object)
		if object.Spec.NodeName != "" {
			trimPlaced(object)
		}
	case *v1beta1.PodGroup:
		object.Annotations = withinAnnotations(object.Annotations)
		object.Spec.SubGroupPolicy = withinPolicies(object.Spec.SubGroupPolicy)
	case *v1.Node:
		object.Status.Allocatable = withinLimits(object.Status.Allocatable, 1)
		object.Status.Capacity = withinLimits(object.Status.Capacity, 1)
	}
	return object, nil
}

// trimPod limits the requests of the pod's containers, so that their sum does not overflow either. A pod without a node
// whose status says that it runs is treated as pending, because it holds no resources.
func trimPod(pod *v1.Pod) {
	if pod.Spec.NodeName == "" && pod.Status.Phase == v1.PodRunning {
		pod.Status.Phase = v1.PodPending
	}
	parts := len(pod.Spec.Containers) + len(pod.Spec.InitContainers) + 1 // all containers, and one more for the overhead
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			trimRequirements(&containers[i].Resources, parts)
		}
	}
	pod.Spec.Overhead = withinLimits(pod.Spec.Overhead, parts)
	if pod.Spec.Resources != nil {
		trimRequirements(pod.Spec.Resources, 2)
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			statuses[i].AllocatedResources = withinLimits(statuses[i].AllocatedResources, parts)
			if statuses[i].Resources != nil {
				trimRequirements(statuses[i].Resources, parts)
			}
		}
	}
}

// trimPlaced removes parts of a pod that is on a node: surplus affinity terms, and fields of containers that only the
// kubelet needs. A pending pod keeps these parts, because the status writer sends the whole pod, and plugins such as
// extender may read any field.
func trimPlaced(pod *v1.Pod) {
	if pod.Spec.Affinity != nil {
		pod.Spec.Affinity = withinTerms(pod.Spec.Affinity)
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			dropProcess(&containers[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		dropProcess((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// dropProcess removes the fields of a container that say what the kubelet runs and how the kubelet probes it. These
// fields are half of a usual pod, and no plugin reads them for a pod on a node.
func dropProcess(c *v1.Container) {
	c.Command, c.Args, c.EnvFrom, c.Env = nil, nil, nil, nil
	c.VolumeMounts, c.VolumeDevices = nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
}

func trimRequirements(r *v1.ResourceRequirements, parts int) {
	r.Requests, r.Limits = withinLimits(r.Requests, parts), withinLimits(r.Limits, parts)
}

// withinTerms returns the affinity of a pod on a node, with at most as many pod affinity terms as a pending pod may
// have. If the affinity has no more terms, it is returned unchanged. Every pending pod is matched against these terms,
// but the limits of pending pods do not apply to a pod that its creator has put on a node, because no scheduler handles
// such a pod. Dropped terms have no effect.
func withinTerms(affinity *v1.Affinity) *v1.Affinity {
	var s podSize
	within := func(term *v1.PodAffinityTerm) bool {
		before := s
		if s.addTerm(term); s.over > mostOverPods || s.requirements > mostTerms || s.values > mostValues {
			s = before
			return false
		}
		return true
	}
	own, less := *affinity, false
	trim := func(required *[]v1.PodAffinityTerm, preferred *[]v1.WeightedPodAffinityTerm) {
		before := len(*required) + len(*preferred)
		*required = only(*required, within)
		*preferred = only(*preferred, func(term *v1.WeightedPodAffinityTerm) bool { return within(&term.PodAffinityTerm) })
		less = less || len(*required)+len(*preferred) < before
	}
	if affinity.PodAntiAffinity != nil {
		anti := *affinity.PodAntiAffinity
		trim(&anti.RequiredDuringSchedulingIgnoredDuringExecution, &anti.PreferredDuringSchedulingIgnoredDuringExecution)
		own.PodAntiAffinity = &anti
	}
	if affinity.PodAffinity != nil {
		with := *affinity.PodAffinity
		trim(&with.RequiredDuringSchedulingIgnoredDuringExecution, &with.PreferredDuringSchedulingIgnoredDuringExecution)
		own.PodAffinity = &with
	}
	if !less {
		return affinity
	}
	return &own
}

// only returns a new slice with the terms that the function within accepts.
func only[T any](terms []T, within func(*T) bool) []T {
	var kept []T
	for i := range terms {
		if within(&terms[i]) {
			kept = append(kept, terms[i])
		}
	}
	return kept
}
