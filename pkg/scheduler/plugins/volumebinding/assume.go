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

// assumedPod records the claims of a pod that is placed on a node. The claims in the field claims have assumed volumes; the claims
// in bound were bound before the pod was placed.
type assumedPod struct {
	node   string
	claims []ownClaim
	bound  []*v1.PersistentVolumeClaim
	// changed has an element if the claims, their volumes, the pod or the node have changed since the pod's pre-bind step last
	// checked the claims.
	changed chan struct{}
}

// ownClaim is a claim that a pod holds. claim is its version when the pod was placed. volume is the volume that was found for the
// claim; nil if the volume is to be provisioned.
type ownClaim struct {
	held   *assumedClaim
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// written is the resource version of the written object: of the volume if one was found, else of the claim. It is empty
	// before the write. Only the pod's pre-bind step uses it.
	written string
}

// assumedClaim is a claim with an assumed volume: an existing volume, or one to be provisioned. All placed pods that use the
// claim hold it.
type assumedClaim struct {
	claim *v1.PersistentVolumeClaim
	node  string
	// pods are the pods that hold the claim. The value is true once the pod's pre-bind step has begun. The mutex of the
	// assumptions guards pods.
	pods map[types.UID]bool
	// volume is the name of the assumed volume; empty if the volume is to be provisioned. before is the volume's ClaimRef before
	// the volume was reserved for the claim. capacity names the CSIStorageCapacity from which a new volume is to be provisioned,
	// if known.
	volume   string
	before   *v1.ObjectReference
	capacity types.NamespacedName

	writes
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// of returns the claims that the pod holds; nil if it holds none.
func (as *assumptions) of(pod types.UID) *assumedPod {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.assumed[pod]
}

// begin records that the pod's pre-bind step has begun, and returns the claims that the pod holds; nil if it holds none.
func (as *assumptions) begin(pod types.UID) *assumedPod {
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

// assume reserves volumes in memory for the pod's claims on the node, by the current state of claims and volumes. It takes the
// claims one by one, so that no volume is assumed twice, in an order in which each claim finds a volume. If it returns an error,
// nothing has changed.
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

// bySize returns the pod's claims in the order of the storage that they request, the smallest request first.
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

// orderByCandidates moves the claims that are not bound behind the bound claims, into an order in which the node has a volume for
// each. If the node lacks a volume for one of them, the order is unchanged. The caller holds the mutex of the assumptions.
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

// assumeClaim adds the claim to a. It assumes a volume for the claim, unless the claim is bound, or a volume is already assumed
// for another pod that shares the claim.
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

// currentCandidate returns the volume that the claim would get on the node, by the current state of claims and volumes.
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

// assumeVolume makes the volume, or the part of a storage capacity, that was found for the claim unavailable to other claims. The
// caller holds the mutex of the assumptions.
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

// releaseVolume undoes assumeVolume for the claim. The caller holds the mutex of the assumptions.
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

// release ends the pod's hold on its claims. The caller knows that the claims are bound, or that no writes for them remain.
func (as *assumptions) release(pod types.UID) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.assumed[pod]; a != nil {
		as.drop(pod, a)
	}
}

// drop ends the pod's hold on the claims in a. A claim that no pod holds is no longer assumed. The caller holds the mutex of the
// assumptions.
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
