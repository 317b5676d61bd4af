// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
)

// maxOwners is how many pods own the PodGroup of a gang that has no other owner. While this controller runs, it
// replaces owners that are deleted. While it does not run, the garbage collector deletes the PodGroup after the last
// owner.
const maxOwners = 16

// ownersOf returns the owners of the Volcano PodGroup: the user's object if it exists, else the common controller of
// all members, else some of the members. now are the current owners of the PodGroup.
func ownersOf(object *v1alpha1.PodGroup, s *source, members []*corev1.Pod, now []metav1.OwnerReference) []metav1.OwnerReference {
	if object != nil {
		owner := metav1.NewControllerRef(object, s.version.WithKind("PodGroup"))
		owner.BlockOwnerDeletion = nil // true would require rights on the owner's finalizers, and nothing waits for the PodGroup's deletion
		return []metav1.OwnerReference{*owner}
	}
	if controller := controllerOf(members); controller != nil {
		return []metav1.OwnerReference{*controller}
	}
	return podsAsOwners(members, now)
}

// controllerOf returns the common controller of all members; nil if they have different controllers or none.
func controllerOf(members []*corev1.Pod) *metav1.OwnerReference {
	var common *metav1.OwnerReference
	for _, pod := range members {
		controller := metav1.GetControllerOf(pod)
		if controller == nil || common != nil && common.UID != controller.UID {
			return nil
		}
		common = controller
	}
	if common != nil {
		common.BlockOwnerDeletion = nil
	}
	return common
}

// podsAsOwners returns some of the members as owners of the PodGroup. now are its current owners. They stay as long as
// half of the desired number of owners exist, so that not every deleted pod causes a write.
func podsAsOwners(members []*corev1.Pod, now []metav1.OwnerReference) []metav1.OwnerReference {
	alive := make(map[types.UID]bool, len(members))
	for _, pod := range members {
		alive[pod.UID] = true
	}
	living := slices.Clone(now)
	living = slices.DeleteFunc(living, func(owner metav1.OwnerReference) bool { return owner.Kind != "Pod" || !alive[owner.UID] })
	want := min(maxOwners, len(members))
	if 2*len(living) >= want && onlyPods(now) {
		return now
	}
	owners := make([]metav1.OwnerReference, 0, want)
	for _, pod := range members[:want] {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	}
	return owners
}

func onlyPods(owners []metav1.OwnerReference) bool {
	return !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind != "Pod" })
}
