// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Amount is a recorded value of a resource. Comparing the current value with an Amount needs no walk over a map, which
// would be most of the cost of comparing tasks.
type Amount struct {
	milliCPU, memory float64
	maxTasks         int
	scalars          []scalar
	// noScalars reports whether the resource's map of scalars was nil.
	noScalars bool
}

type scalar struct {
	name  v1.ResourceName
	value float64
}

// AmountOf returns the current amount of the resource.
func AmountOf(r *api.Resource) *Amount {
	a := &Amount{milliCPU: r.MilliCPU, memory: r.Memory, maxTasks: r.MaxTaskNum, noScalars: r.ScalarResources == nil}
	for name, value := range r.ScalarResources {
		a.scalars = append(a.scalars, scalar{name, value})
	}
	return a
}

// Is reports whether the resource equals the recorded amount.
func (a *Amount) Is(r *api.Resource) bool {
	if r == nil || r.MilliCPU != a.milliCPU || r.Memory != a.memory || r.MaxTaskNum != a.maxTasks ||
		len(r.ScalarResources) != len(a.scalars) || (r.ScalarResources == nil) != a.noScalars {
		return false
	}
	for i := range a.scalars {
		if value, ok := r.ScalarResources[a.scalars[i].name]; !ok || value != a.scalars[i].value {
			return false
		}
	}
	return true
}

// restore drops scalars of 0 that the resource did not have when it was recorded. Adding and removing a task creates
// such scalars.
func (a *Amount) restore(r *api.Resource) {
	if r == nil || len(r.ScalarResources) <= len(a.scalars) {
		return
	}
	maps.DeleteFunc(r.ScalarResources, func(name v1.ResourceName, value float64) bool {
		return value == 0 && !slices.ContainsFunc(a.scalars, func(had scalar) bool { return had.name == name })
	})
	if a.noScalars && len(r.ScalarResources) == 0 {
		r.ScalarResources = nil
	}
}

// amounts shares equal Amounts among the tasks of a node or a job, which have few different requests.
type amounts []*Amount

func (all *amounts) of(r *api.Resource) *Amount {
	for _, a := range *all {
		if a.Is(r) {
			return a
		}
	}
	a := AmountOf(r)
	*all = append(*all, a)
	return a
}

// equalUsage reports whether the load in a copy of a node (a) equals the load in its source (b).
func equalUsage(a, b *api.NodeUsage) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.MetricsTime.Equal(b.MetricsTime) && a.CPUUsageAvg != nil && maps.Equal(a.CPUUsageAvg, b.CPUUsageAvg) &&
		a.MEMUsageAvg != nil && maps.Equal(a.MEMUsageAvg, b.MEMUsageAvg)
}

// equalImages reports whether the images in a copy of a node (a) equal the images in its source (b).
func equalImages(a, b map[string]*fwk.ImageStateSummary) bool {
	return a != nil && maps.EqualFunc(a, b, func(a, b *fwk.ImageStateSummary) bool {
		return a != nil && b != nil && a.Size == b.Size && a.NumNodes == b.NumNodes && a.Nodes == nil
	})
}

// equalPodGroup reports whether the PodGroup in a copy of a job (a) equals the PodGroup in its source (b), except for
// the status.
func equalPodGroup(a, b *api.PodGroup) bool {
	return a != nil && b != nil && a.Version == b.Version && a.TypeMeta == b.TypeMeta && equalMeta(&a.ObjectMeta, &b.ObjectMeta) && equalSpec(&a.Spec, &b.Spec)
}

func equalMeta(a, b *metav1.ObjectMeta) bool {
	return a.Name == b.Name && a.GenerateName == b.GenerateName && a.Namespace == b.Namespace && a.UID == b.UID &&
		a.SelfLink == b.SelfLink && //nolint:staticcheck // no longer filled in, but a session could change it
		a.ResourceVersion == b.ResourceVersion && a.Generation == b.Generation && a.CreationTimestamp == b.CreationTimestamp &&
		a.DeletionTimestamp.Equal(b.DeletionTimestamp) && equalPointees(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		equalMap(a.Labels, b.Labels) && equalMap(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers) &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, equalOwner) && slices.EqualFunc(a.ManagedFields, b.ManagedFields, equalManagedFields)
}

func equalOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		equalPointees(a.Controller, b.Controller) && equalPointees(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func equalManagedFields(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Time.Equal(b.Time) && a.FieldsType == b.FieldsType &&
		a.Subresource == b.Subresource && (a.FieldsV1 == nil) == (b.FieldsV1 == nil) && (a.FieldsV1 == nil || bytes.Equal(a.FieldsV1.Raw, b.FieldsV1.Raw))
}

func equalSpec(a, b *scheduling.PodGroupSpec) bool {
	return a.MinMember == b.MinMember && equalMap(a.MinTaskMember, b.MinTaskMember) && a.Queue == b.Queue && a.PriorityClassName == b.PriorityClassName &&
		equalList(a.MinResources, b.MinResources) &&
		(a.NetworkTopology == nil && b.NetworkTopology == nil || reflect.DeepEqual(a.NetworkTopology, b.NetworkTopology)) &&
		(len(a.SubGroupPolicy) == 0 && len(b.SubGroupPolicy) == 0 || reflect.DeepEqual(a.SubGroupPolicy, b.SubGroupPolicy))
}

func equalList(a, b *v1.ResourceList) bool {
	if a == nil || b == nil {
		return a == b
	}
	return (*a == nil) == (*b == nil) && maps.EqualFunc(*a, *b, func(a, b resource.Quantity) bool { return a == b || a.Format == b.Format && a.Equal(b) })
}

// equalMap reports whether the maps are equal. It distinguishes an empty map from a nil map, because a plugin may add
// to an empty map.
func equalMap[K, V comparable](a, b map[K]V) bool {
	return (a == nil) == (b == nil) && maps.Equal(a, b)
}

func equalPointees[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
