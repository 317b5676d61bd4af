// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// uncacheable reports whether the filter results for a task cannot be cached, because placements on other nodes may change them.
// This is the case if the pod has disks (volumes such as ISCSI that pods on a node cannot freely share), or if another pod uses
// one of its ReadWriteOncePod claims. It is also the case if pods on other nodes may use its unbound claims, or the volumes that
// suit these claims.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	if hasDisks(task.Pod) {
		return true
	}
	for _, own := range claimVolumes(task.Pod) {
		claim, err := s.volumes.objects.claims.PersistentVolumeClaims(own.claim.Namespace).Get(own.claim.Name)
		if err != nil || forOnePod(claim) && !s.volumes.objects.sole(claim) || !isBound(claim) && s.topologyDependent(claim) {
			return true
		}
	}
	return false
}

// topologyDependent reports whether placements on other nodes may change which nodes have a volume for the unbound claim.
func (s *session) topologyDependent(claim *v1.PersistentVolumeClaim) bool {
	s.volumes.assumptions.mu.Lock()
	defer s.volumes.assumptions.mu.Unlock()
	return !s.inventory.unshared(claim) || s.inventory.coupled(claim)
}

// unshared reports whether only the spec of an unbound claim decides which volumes it can get: only one pod uses the claim, no
// volume is reserved for it, and no node is selected for it. The caller holds assumptions.mu.
func (s *volumeInventory) unshared(claim *v1.PersistentVolumeClaim) bool {
	name := nameOf(claim)
	return s.assumptions.held[name] == nil && !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnSelectedNode) && claim.Spec.VolumeName == "" &&
		s.claimed().users[name] <= 1 && len(s.objects.reservedFor(claim)) == 0
}

// SignVolume implements framework.Signer: it returns a key for the claim of a pod's volume. Unbound claims have equal keys if
// their specs are equal, only the specs decide which volumes they can get (see unshared), and no write of a former leader is
// left for them. Bound claims that only one pod uses have equal keys if their volumes have equal properties (see boundKey). The
// key of any other claim is made from the claim's name.
func (s *session) SignVolume(pod *v1.Pod, of *v1.Volume) string {
	name := types.NamespacedName{Namespace: pod.Namespace}
	if of.PersistentVolumeClaim != nil {
		name.Name = of.PersistentVolumeClaim.ClaimName
	} else {
		name.Name = ephemeral.VolumeClaimName(pod, of)
	}
	claim, err := s.volumes.objects.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if err != nil || checkSize(claim) != nil {
		return "named " + name.Name
	}
	if isBound(claim) {
		if key, ok := s.volumes.objects.boundKey(claim); ok {
			return "bound " + key
		}
		return "named " + name.Name
	}
	s.volumes.assumptions.mu.Lock()
	unshared := s.inventory.unshared(claim)
	s.volumes.assumptions.mu.Unlock()
	if !unshared || s.volumes.unrecovered.Check(name) != nil {
		return "named " + name.Name
	}
	return "like " + claimSignature(claim)
}

// boundKey returns a key for a bound claim that only one pod uses. The key is made from the properties of the claim's volume that
// decide which nodes fit: its node affinity, storage class, labels and driver. ok is false if these properties do not suffice.
// This is the case if several pods use the claim, if several PersistentVolumes represent the same disk, or if Kubernetes
// translates the volume into a CSI volume.
func (o *objects) boundKey(claim *v1.PersistentVolumeClaim) (key string, ok bool) {
	pv, err := o.volumes.Get(claim.Spec.VolumeName)
	if err != nil || !o.sole(claim) || !asIs(pv) {
		return "", false
	}
	parts := []string{volume.GetPersistentVolumeClaimClass(claim), volume.GetPersistentVolumeClass(pv)}
	if csi := pv.Spec.CSI; csi != nil {
		volumes, err := o.indexer.IndexKeys(handleIndex, handleOf(csi))
		if err != nil || len(volumes) != 1 {
			return "", false
		}
		parts = append(parts, csi.Driver)
	}
	if pv.Spec.NodeAffinity != nil {
		affinity, err := pv.Spec.NodeAffinity.Marshal()
		if err != nil {
			return "", false
		}
		parts = append(parts, "affinity", string(affinity))
	}
	for _, label := range slices.Sorted(maps.Keys(pv.Labels)) {
		parts = append(parts, label, pv.Labels[label])
	}
	return fmt.Sprintf("%q", parts), true
}

// asIs reports whether Kubernetes uses the volume unchanged, and does not translate it into a CSI volume.
func asIs(pv *v1.PersistentVolume) bool {
	source := &pv.Spec.PersistentVolumeSource
	return source.AWSElasticBlockStore == nil && source.GCEPersistentDisk == nil && source.Cinder == nil && source.AzureDisk == nil &&
		source.AzureFile == nil && source.VsphereVolume == nil && source.PortworxVolume == nil
}

// Reach implements framework.Signer: it returns the nodes that reach a bound volume of the task, so that allocate tries no other
// nodes. If the task has several bound volumes, it selects the volume that the fewest nodes reach. It returns nil if all nodes
// reach the volumes.
func (s *session) Reach(task *api.TaskInfo) *framework.Reach {
	if !hasClaims(task.Pod) {
		return nil
	}
	state, err := s.stateOf(task)
	if err != nil {
		return nil // the task's predicate returns the same error
	}
	var fewest *nodeSet
	for _, claim := range state.bound {
		pv, err := s.volumes.objects.volumes.Get(claim.Spec.VolumeName)
		if err != nil || !asIs(pv) {
			continue
		}
		s.volumes.assumptions.mu.Lock()
		nodes := s.inventory.labels.reaching(pv)
		s.volumes.assumptions.mu.Unlock()
		if fewest == nil || len(nodes.nodes) < len(fewest.nodes) {
			fewest = nodes
		}
	}
	if fewest == nil || len(fewest.nodes) == len(s.inventory.labels.nodes) {
		return nil
	}
	reach := &framework.Reach{Refusal: api.NewFitErrWithStatus(task, &api.NodeInfo{}, s.unreached(state))}
	for _, node := range fewest.nodes {
		reach.Nodes = append(reach.Nodes, node.Name)
	}
	return reach
}

// claimSignature returns a key that is made from all fields with which a claim requests a volume. A byte that none of the fields
// contains separates them in the key.
func claimSignature(claim *v1.PersistentVolumeClaim) string {
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
