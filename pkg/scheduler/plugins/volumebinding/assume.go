// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// assumedPod records the claims of a pod that is placed on a node. The claims in the field claims have assumed volumes. The claims
// in the field bound were already bound when the pod was placed.
type assumedPod struct {
	node   string
	claims []ownClaim
	bound  []*v1.PersistentVolumeClaim
	// changed has an element if the pod's pre-bind step must check the claims again, because the claims, their volumes, the pod or
	// the node have changed.
	changed chan struct{}
}

// ownClaim is a claim that a placed pod holds. The field claim is the claim's version when the pod was placed. volume is the
// existing volume that was found for the claim; nil if a volume is to be provisioned.
type ownClaim struct {
	held   *assumedClaim
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// written is the resource version of the object that was written for the claim: of the volume if one was found, otherwise of
	// the claim itself. It is empty before the write. Only the pod's pre-bind step uses written.
	written string
}

// assumedClaim is a claim with an assumed volume, which exists or is to be provisioned. All placed pods that use the claim hold
// the same assumedClaim.
type assumedClaim struct {
	claim *v1.PersistentVolumeClaim
	node  string
	// pods are the pods that hold the claim. The value is true once the pod's pre-bind step has begun. assumptions.mu guards pods.
	pods map[types.UID]bool
	// volume is the name of the assumed volume; empty if a volume is to be provisioned. before is the ClaimRef that the volume had
	// before it was reserved for the claim. capacity names the CSIStorageCapacity for the volume to be provisioned, if it is
	// known.
	volume   string
	before   *v1.ObjectReference
	capacity types.NamespacedName

	writes
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// of returns the claims of the placed pod; nil if the pod holds no claims.
func (as *assumptions) of(pod types.UID) *assumedPod {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.assumed[pod]
}

// beginPreBind records that the pod's pre-bind step has begun. It returns the claims of the pod; nil if the pod holds no claims.
func (as *assumptions) beginPreBind(pod types.UID) *assumedPod {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.assumed[pod]
	if a != nil {
		for i := range a.claims {
			a.claims[i].held.pods[pod] = true
		}
	}
	return a
}

// assume reserves volumes in memory for the pod's claims on the node. It reads the current claims and volumes. It reserves a
// volume for one claim after the other, so that no two claims get the same volume. If it returns an error, it has changed nothing.
func (s *volumeInventory) assume(pod *v1.Pod, node *v1.Node) error {
	s.assumptions.mu.Lock()
	defer s.assumptions.mu.Unlock()
	if a := s.assumptions.assumed[pod.UID]; a != nil {
		return fmt.Errorf("volumes reserved for the pod on node %s are not released yet", a.node)
	}
	claims, err := s.objects.bySize(pod)
	if err != nil {
		return err
	}
	if err := s.orderByCandidates(claims, pod.UID, node); err != nil {
		return err
	}
	a := &assumedPod{node: node.Name, changed: make(chan struct{}, 1)}
	for _, claim := range claims {
		if err := s.assumeClaim(a, pod, claim, node); err != nil {
			s.assumptions.drop(pod.UID, a)
			return fmt.Errorf("%s: %w", describe(claim), err)
		}
	}
	if len(a.claims) > 0 {
		s.assumptions.assumed[pod.UID] = a
	}
	return nil
}

// bySize returns the pod's claims, sorted by the amount of storage that they request. The smallest request comes first.
func (o *objects) bySize(pod *v1.Pod) ([]*v1.PersistentVolumeClaim, error) {
	var claims []*v1.PersistentVolumeClaim
	for _, own := range claimVolumes(pod) {
		claim, err := o.claimOf(pod, own)
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	slices.SortStableFunc(claims, smallestFirst)
	return claims, nil
}

// orderByCandidates sorts the pod's claims. Bound claims come first. The other claims follow in an order in which the node has a
// volume for each of them. If the node lacks a volume for one of these claims, the order is unchanged. The caller holds
// assumptions.mu.
func (s *volumeInventory) orderByCandidates(claims []*v1.PersistentVolumeClaim, pod types.UID, node *v1.Node) error {
	var late []claimRequest
	for _, claim := range claims {
		if isBound(claim) {
			continue
		}
		w, err := s.objects.readRequest(claim)
		if err != nil {
			return err
		}
		late = append(late, w)
	}
	if len(late) < 2 {
		return nil
	}
	found, why, err := s.candidatesLocked(pod, late, node)
	if err != nil || why != accepted {
		return err
	}
	place := func(claim *v1.PersistentVolumeClaim) int {
		return slices.IndexFunc(found, func(o candidate) bool { return o.claim == claim })
	}
	slices.SortStableFunc(claims, func(l, r *v1.PersistentVolumeClaim) int { return cmp.Compare(place(l), place(r)) })
	return nil
}

func smallestFirst(l, r *v1.PersistentVolumeClaim) int {
	left, right := l.Spec.Resources.Requests[v1.ResourceStorage], r.Spec.Resources.Requests[v1.ResourceStorage]
	return cmp.Or(left.Cmp(right), cmp.Compare(l.Name, r.Name))
}

// assumeClaim adds the claim to the placed pod a. It assumes a volume for the claim, unless the claim is bound or another pod that
// shares the claim has already assumed a volume.
func (s *volumeInventory) assumeClaim(a *assumedPod, pod *v1.Pod, claim *v1.PersistentVolumeClaim, node *v1.Node) error {
	if isBound(claim) {
		pv, err := s.objects.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return err
		}
		a.bound = append(a.bound, claim)
		return s.objects.reaches(pv, node)
	}
	held := s.assumptions.held[nameOf(claim)]
	if held != nil && (len(held.pods) == 0 || held.claim.UID != claim.UID) {
		return errors.New("an earlier reservation of the claim is being rolled back")
	}
	found, err := s.currentCandidate(pod.UID, claim, node)
	if err != nil {
		return err
	}
	if held == nil {
		held = &assumedClaim{claim: claim, node: node.Name, pods: map[types.UID]bool{}, writes: writes{scheduler: framework.OwnershipMark(pod.Spec.SchedulerName)}}
		s.assumptions.assumeVolume(held, found)
	}
	held.pods[pod.UID] = false
	a.claims = append(a.claims, ownClaim{held: held, claim: claim, volume: found.volume})
	return nil
}

// currentCandidate returns the volume that the claim would now get on the node. It reads the current claims and volumes.
func (s *volumeInventory) currentCandidate(pod types.UID, claim *v1.PersistentVolumeClaim, node *v1.Node) (candidate, error) {
	late, err := s.objects.readRequest(claim)
	if err != nil {
		return candidate{}, err
	}
	found, why, err := s.candidateFor(pod, late, node, newBasket())
	if err == nil && why != accepted {
		err = fmt.Errorf("the node no longer fits the claim: %s", why)
	}
	return found, err
}

// assumeVolume records the volume, or the part of a storage capacity, that was found for the claim, so that no other claim gets
// it. The caller holds assumptions.mu.
func (as *assumptions) assumeVolume(held *assumedClaim, has candidate) {
	as.held[nameOf(held.claim)] = held
	if has.volume != nil {
		held.volume, held.before = has.volume.Name, has.volume.Spec.ClaimRef
		as.reserved[held.volume] = held
		as.reservations++
	}
	if has.capacity != nil {
		held.capacity = capacityName(has.capacity)
		as.drawn[held.capacity] += sizeOf(held.claim)
	}
}

// releaseVolume reverts assumeVolume for the claim. The caller holds assumptions.mu.
func (as *assumptions) releaseVolume(held *assumedClaim) {
	delete(as.held, nameOf(held.claim))
	delete(as.reserved, held.volume)
	as.reservations++
	if held.capacity.Name == "" {
		return
	}
	if as.drawn[held.capacity] -= sizeOf(held.claim); as.drawn[held.capacity] == 0 {
		delete(as.drawn, held.capacity)
	}
}

// release records that the pod no longer holds its claims. It is called when the claims are bound, or when none of
// their writes are left in the API server.
func (as *assumptions) release(pod types.UID) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.assumed[pod]; a != nil {
		as.drop(pod, a)
	}
}

// drop records that the pod no longer holds the claims in a. If no other pod holds a claim, its volume is no longer assumed. The
// caller holds assumptions.mu.
func (as *assumptions) drop(pod types.UID, a *assumedPod) {
	delete(as.assumed, pod)
	for i := range a.claims {
		held := a.claims[i].held
		delete(held.pods, pod)
		if len(held.pods) == 0 && as.held[nameOf(held.claim)] == held {
			as.releaseVolume(held)
		}
	}
}
