// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// uncacheable is true of a task whose verdicts depend on what else is placed, and where: with a claim that is not its own alone, or
// that is for one pod at a time, or a disk that is; or one whose volume others may have that are placed on other nodes.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	if hasDisks(task.Pod) {
		return true
	}
	for _, own := range claimVolumes(task.Pod) {
		claim, err := s.volumes.claims.PersistentVolumeClaims(own.claim.Namespace).Get(own.claim.Name)
		if err != nil || forOnePod(claim) || !isBound(claim) && s.dependent(claim) {
			return true
		}
	}
	return false
}

// dependent is true of a claim without a volume whose verdicts depend on what is placed on other nodes.
func (s *session) dependent(claim *v1.PersistentVolumeClaim) bool {
	s.volumes.mu.Lock()
	defer s.volumes.mu.Unlock()
	return !s.stock.lone(claim) || s.stock.coupled(claim)
}

// lone is true of a claim without a volume of which nothing is known but what it asks for: it is one pod's, no volume is reserved
// and no node selected for it. The mutex of volumes is held.
func (s *stock) lone(claim *v1.PersistentVolumeClaim) bool {
	name := nameOf(claim)
	return s.held[name] == nil && !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnSelectedNode) && claim.Spec.VolumeName == "" &&
		s.claimed().users[name] <= 1 && len(s.reservedFor(claim)) == 0
}

// volumeKey tells volumes of pods apart: by what their claims ask for, as far as all that is known of them is that, and else by the
// claims' names.
func (s *session) volumeKey(pod *v1.Pod, of *v1.Volume) string {
	name := types.NamespacedName{Namespace: pod.Namespace}
	if of.PersistentVolumeClaim != nil {
		name.Name = of.PersistentVolumeClaim.ClaimName
	} else {
		name.Name = ephemeral.VolumeClaimName(pod, of)
	}
	claim, err := s.volumes.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if err != nil || isBound(claim) || checkSize(claim) != nil {
		return "named " + name.Name
	}
	s.volumes.mu.Lock()
	lone := s.stock.lone(claim)
	s.volumes.mu.Unlock()
	if !lone {
		return "named " + name.Name
	}
	return "like " + keyOf(claim)
}

// keyOf is all that a claim asks for. No part can hold the byte that ends it.
func keyOf(claim *v1.PersistentVolumeClaim) string {
	mode := v1.PersistentVolumeFilesystem
	if claim.Spec.VolumeMode != nil {
		mode = *claim.Spec.VolumeMode
	}
	attributes := ""
	if claim.Spec.VolumeAttributesClassName != nil {
		attributes = *claim.Spec.VolumeAttributesClassName
	}
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	parts := []string{volume.GetPersistentVolumeClaimClass(claim), size.String(), string(mode), attributes}
	for _, access := range slices.Sorted(slices.Values(claim.Spec.AccessModes)) {
		parts = append(parts, string(access))
	}
	if claim.Spec.Selector != nil {
		parts = append(parts, "selector", claim.Spec.Selector.String())
	}
	return strings.Join(parts, "\x00")
}
