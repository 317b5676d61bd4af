// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Limits on the claims and disks of a pod, and on the selector and access modes of a claim. They exist because the plugin checks
// a tenant's claims and disks for each node. No node can attach so many volumes, and no real selector is so large.
const (
	mostClaims       = 1000
	mostDisks        = 100
	mostRequirements = 100
	mostAccessModes  = 16
)

// claimVolume is a volume in a pod's spec, and the name of the PersistentVolumeClaim that it uses.
type claimVolume struct {
	volume v1.Volume
	claim  types.NamespacedName
}

// hasClaims reports whether a volume of the pod uses a claim. It is called for each node, so it stops at the first such volume.
func hasClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// claimVolumes returns the pod's volumes that use a claim. Of several volumes with the same claim it returns only the first.
func claimVolumes(pod *v1.Pod) []claimVolume {
	if !hasClaims(pod) {
		return nil
	}
	var found []claimVolume
	known := make(map[string]bool, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		own := &pod.Spec.Volumes[i]
		name := types.NamespacedName{Namespace: pod.Namespace}
		switch {
		case own.PersistentVolumeClaim != nil:
			name.Name = own.PersistentVolumeClaim.ClaimName
		case own.Ephemeral != nil:
			name.Name = ephemeral.VolumeClaimName(pod, own)
		default:
			continue
		}
		if !known[name.Name] {
			known[name.Name] = true
			found = append(found, claimVolume{*own, name})
		}
	}
	return found
}

// isBound reports whether the volume controller has completed the binding of the claim to a volume.
func isBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// claimOf returns the claim that a volume of the pod uses. The error says why the pod cannot be placed now.
func (o *objects) claimOf(pod *v1.Pod, of claimVolume) (*v1.PersistentVolumeClaim, error) {
	claim, err := o.claims.PersistentVolumeClaims(of.claim.Namespace).Get(of.claim.Name)
	switch {
	case apierrors.IsNotFound(err) && of.volume.Ephemeral != nil:
		return nil, fmt.Errorf("claim %s of the pod's ephemeral volume %s has not been created yet", brief.Value(of.claim.Name), brief.Value(of.volume.Name))
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("claim %s of the pod's volume %s does not exist", brief.Value(of.claim.Name), brief.Value(of.volume.Name))
	case err != nil:
		return nil, fmt.Errorf("reading claim %s: %w", brief.Value(of.claim.Name), err)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%s is being deleted", describe(claim))
	case claim.Status.Phase == v1.ClaimLost:
		return nil, fmt.Errorf("%s has lost its volume %s", describe(claim), brief.Value(claim.Spec.VolumeName))
	case of.volume.Ephemeral != nil:
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, fmt.Errorf("%s was not created for the pod's ephemeral volume: %w", describe(claim), err)
		}
	}
	if isBound(claim) {
		_, err := o.volumes.Get(claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s is bound to volume %s, which does not exist", describe(claim), brief.Value(claim.Spec.VolumeName))
		}
		return claim, err
	}
	return claim, o.bindsLate(claim)
}

// checkSize returns an error if the claim has too many access modes or selector requirements to check for each node.
func checkSize(claim *v1.PersistentVolumeClaim) error {
	if n := len(claim.Spec.AccessModes); n > mostAccessModes {
		return fmt.Errorf("%s has %d access modes, must be at most %d", describe(claim), n, mostAccessModes)
	}
	if n := requirements(claim.Spec.Selector); n > mostRequirements {
		return fmt.Errorf("%s has a selector of %d requirements and values, must be at most %d", describe(claim), n, mostRequirements)
	}
	return nil
}

// requirements returns the number of requirements in the selector. A requirement with several values counts once for each value.
func requirements(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n += max(1, len(s.MatchExpressions[i].Values))
	}
	return n
}

// bindsLate checks an unbound claim. It returns nil if the claim is to be bound after its pod was placed (WaitForFirstConsumer).
// Otherwise the error says why the pod cannot be placed.
func (o *objects) bindsLate(claim *v1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != "" {
		return fmt.Errorf("%s requests volume %s and is not bound to it yet", describe(claim), brief.Value(claim.Spec.VolumeName))
	}
	if selected, is := claim.Annotations[volume.AnnSelectedNode]; is && selected == "" {
		return fmt.Errorf("%s: annotation %s is empty, must be a node's name; remove the annotation", describe(claim), volume.AnnSelectedNode)
	}
	if err := checkSize(claim); err != nil {
		return err
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return fmt.Errorf("%s is not bound; create a volume for it, or set a storage class", describe(claim))
	}
	class, err := o.classes.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s is not bound: its storage class does not exist", describe(claim))
	case err != nil:
		return fmt.Errorf("reading the storage class of %s: %w", describe(claim), err)
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return fmt.Errorf("waiting for %s with Immediate binding to be bound", describe(claim))
	}
	return nil
}

// describe returns the claim's name and storage class, for messages.
func describe(claim *v1.PersistentVolumeClaim) string {
	if class := volume.GetPersistentVolumeClaimClass(claim); class != "" {
		return fmt.Sprintf("claim %s (storage class %s)", brief.Value(claim.Name), brief.Value(class))
	}
	return fmt.Sprintf("claim %s (no storage class)", brief.Value(claim.Name))
}

// mostDescribed is the maximum number of claims that a message names.
const mostDescribed = 3

func describeAll(claims []*v1.PersistentVolumeClaim) string {
	var parts []string
	for i, claim := range claims {
		if i == mostDescribed {
			parts = append(parts, fmt.Sprintf("%d more", len(claims)-i))
			break
		}
		parts = append(parts, describe(claim))
	}
	return strings.Join(parts, ", ")
}
