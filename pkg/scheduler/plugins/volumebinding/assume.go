// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// assumedPod is what is assumed for a pod on a node: the claims it holds, and what the binder is to bind.
type assumedPod struct {
	node    string
	volumes *k8s.PodVolumes
	held    []*assumedClaim
}

// assumedClaim is a claim whose volume is assumed. Pods that share the claim hold it together.
type assumedClaim struct {
	claim *v1.PersistentVolumeClaim
	node  string
	// pods are the pods that hold it, true once their steps have begun. assumed undoes the assumption when no pod holds it any
	// longer. The mutex of volumes guards both.
	pods    map[types.UID]bool
	assumed k8s.PodVolumes
	// volume is the name of its volume, if one exists, before the claim that the volume was reserved for, and capacity the capacity
	// that it is made of, if known.
	volume   string
	before   *v1.ObjectReference
	capacity types.NamespacedName
	// bound is closed when the informers show the claim as bound, or another of its name.
	bound     chan struct{}
	boundOnce sync.Once

	writes
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// assumptionOf returns what is assumed for the pod; nil when nothing is.
func (v *volumes) assumptionOf(pod types.UID) *assumedPod {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.assumed[pod]
}

// begin returns what is assumed for the pod, whose step has begun; nil when nothing is.
func (v *volumes) begin(pod types.UID) *assumedPod {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.assumed[pod]
	if a != nil {
		for _, held := range a.held {
			held.pods[pod] = true
		}
	}
	return a
}

// assume makes the binder take volumes for the pod's claims on the node in their current state. It takes claims one by one, in the
// order in which the node has a candidate for each, so that each claim's volume is known and no volume is taken twice. After an error
// nothing has changed.
func (v *volumes) assume(from *volumeInventory, pod *v1.Pod, node *v1.Node) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a := v.assumed[pod.UID]; a != nil {
		return fmt.Errorf("volumes reserved for the pod on node %s are not released yet", a.node)
	}
	claims, err := v.bySize(pod)
	if err != nil {
		return err
	}
	if err := from.orderByCandidates(claims, pod.UID, node); err != nil {
		return err
	}
	a := &assumedPod{node: node.Name, volumes: &k8s.PodVolumes{StaticBindings: []*k8s.BindingInfo{}, DynamicProvisions: []*k8s.DynamicProvision{}}}
	for _, claim := range claims {
		if err := v.assumeClaim(a, from, pod, claim, node); err != nil {
			v.drop(pod.UID, a)
			return fmt.Errorf("%s: %w", describe(claim.PersistentVolumeClaim), err)
		}
	}
	if len(a.held) > 0 {
		v.assumed[pod.UID] = a
	}
	return nil
}

// podClaim is a claim of a pod with the volume that names it.
type podClaim struct {
	claimVolume
	*v1.PersistentVolumeClaim
}

func (v *volumes) bySize(pod *v1.Pod) ([]podClaim, error) {
	var claims []podClaim
	for _, own := range claimVolumes(pod) {
		claim, err := v.objects.claimOf(pod, own)
		if err != nil {
			return nil, err
		}
		claims = append(claims, podClaim{own, claim})
	}
	slices.SortStableFunc(claims, func(l, r podClaim) int { return smallestFirst(l.PersistentVolumeClaim, r.PersistentVolumeClaim) })
	return claims, nil
}

// orderByCandidates moves the claims without a volume behind the others, in the order in which the node has a candidate for each. If it
// has none, the order is unchanged. The mutex is held.
func (s *volumeInventory) orderByCandidates(claims []podClaim, pod types.UID, node *v1.Node) error {
	var late []claimRequest
	for _, claim := range claims {
		if isBound(claim.PersistentVolumeClaim) {
			continue
		}
		w, err := s.readRequest(claim.PersistentVolumeClaim)
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
	place := func(claim podClaim) int {
		return slices.IndexFunc(found, func(o candidate) bool { return o.claim == claim.PersistentVolumeClaim })
	}
	slices.SortStableFunc(claims, func(l, r podClaim) int { return cmp.Compare(place(l), place(r)) })
	return nil
}

func smallestFirst(l, r *v1.PersistentVolumeClaim) int {
	left, right := l.Spec.Resources.Requests[v1.ResourceStorage], r.Spec.Resources.Requests[v1.ResourceStorage]
	return cmp.Or(left.Cmp(right), cmp.Compare(l.Name, r.Name))
}

// errNotKnown is of a claim that the binder, which may see it later than the lister does, does not know as that is.
var errNotKnown = errors.New("the scheduler has not seen the latest version of the claim yet")

// assumeClaim adds one claim to the assumption. Of a claim that is bound the binder knows the node's verdict, and nothing is
// assumed.
func (v *volumes) assumeClaim(a *assumedPod, from *volumeInventory, pod *v1.Pod, claim podClaim, node *v1.Node) error {
	single := withVolumes(pod, claim.claimVolume)
	bound, err := v.binder.AssumePodVolumes(klog.Background(), single, node.Name, &k8s.PodVolumes{})
	switch {
	case err != nil:
		return err
	case bound != isBound(claim.PersistentVolumeClaim):
		return errNotKnown
	case bound:
		return v.reaches(single, node)
	}
	found, err := from.currentCandidate(single, claim, node)
	if err != nil {
		return err
	}
	held, shared := v.held[claim.claim]
	if shared && (len(held.pods) == 0 || held.claim.UID != claim.UID) {
		return errors.New("an earlier reservation of the claim is being rolled back")
	}
	if shared && held.joins(node.Name) {
		held.pods[pod.UID] = false
		a.held = append(a.held, held)
		return nil
	}
	taken, err := v.podVolumes(single, found, node)
	if err != nil {
		return err
	}
	if boundNow, err := v.binder.AssumePodVolumes(klog.Background(), single, node.Name, taken); err != nil || boundNow {
		return cmp.Or(err, errNotKnown)
	}
	if !shared {
		held = &assumedClaim{claim: claim.PersistentVolumeClaim, node: node.Name, pods: map[types.UID]bool{}, bound: make(chan struct{}), writes: writes{scheduler: schedulerOf(pod)}}
		v.assumeVolume(held, found)
	}
	held.pods[pod.UID] = false
	held.assumed.StaticBindings = append(held.assumed.StaticBindings, taken.StaticBindings...)
	held.assumed.DynamicProvisions = append(held.assumed.DynamicProvisions, taken.DynamicProvisions...)
	a.held = append(a.held, held)
	a.volumes.StaticBindings = append(a.volumes.StaticBindings, taken.StaticBindings...)
	a.volumes.DynamicProvisions = append(a.volumes.DynamicProvisions, taken.DynamicProvisions...)
	return nil
}

// joins is true of a pod on the node if the claim's volume is to be made for a pod on another node.
func (h *assumedClaim) joins(node string) bool { return h.volume == "" && h.node != node }

// joined returns the assumption's claims whose volumes are being provisioned for pods on other nodes, as written.
func (v *volumes) joined(a *assumedPod) []*v1.PersistentVolumeClaim {
	v.mu.Lock()
	defer v.mu.Unlock()
	var claims []*v1.PersistentVolumeClaim
	for _, held := range a.held {
		if held.joins(a.node) && len(held.assumed.DynamicProvisions) > 0 {
			claims = append(claims, held.assumed.DynamicProvisions[0].PVC)
		}
	}
	return claims
}

// reaches is nil if the node reaches the volume of the pod's claim, which is bound.
func (v *volumes) reaches(pod *v1.Pod, node *v1.Node) error {
	claims, err := v.binder.GetPodVolumeClaims(klog.Background(), pod)
	if err != nil {
		return err
	}
	_, reasons, err := v.binder.FindPodVolumes(klog.Background(), pod, claims, node)
	switch {
	case err == nil && slices.Contains(reasons, k8s.ErrReasonNodeConflict):
		return fmt.Errorf("%w: %v", errUnreached, reasons)
	case err == nil && len(reasons) > 0:
		return fmt.Errorf("%v", reasons)
	}
	return err
}

// currentCandidate returns the claim's candidate now.
func (s *volumeInventory) currentCandidate(pod *v1.Pod, claim podClaim, node *v1.Node) (candidate, error) {
	late, err := s.readRequest(claim.PersistentVolumeClaim)
	if err != nil {
		return candidate{}, err
	}
	found, why, err := s.candidateFor(pod.UID, late, node, newBasket())
	if err == nil && why != accepted {
		err = fmt.Errorf("the node no longer fits the claim: %s", why)
	}
	return found, err
}

// podVolumes is the candidate as the binder takes it.
func (v *volumes) podVolumes(pod *v1.Pod, found candidate, node *v1.Node) (*k8s.PodVolumes, error) {
	if found.volume == nil {
		return &k8s.PodVolumes{DynamicProvisions: []*k8s.DynamicProvision{{PVC: found.claim, NodeCapacity: found.capacity}}}, nil
	}
	matched, err := v.matcher.match(pod, found.claim, found.volume, node)
	return &k8s.PodVolumes{StaticBindings: matched}, err
}

// assumeVolume makes the claim's volume or capacity unavailable to others. The mutex is held.
func (v *volumes) assumeVolume(held *assumedClaim, has candidate) {
	v.held[nameOf(held.claim)] = held
	if has.volume != nil {
		held.volume, held.before = has.volume.Name, has.volume.Spec.ClaimRef
		v.reserved[held.volume] = true
		v.reservations++
	}
	if has.capacity != nil {
		held.capacity = capacityName(has.capacity)
		v.drawn[held.capacity] += sizeOf(held.claim)
	}
}

// releaseVolume undoes assumeVolume. The mutex is held.
func (v *volumes) releaseVolume(held *assumedClaim) {
	delete(v.held, nameOf(held.claim))
	delete(v.reserved, held.volume)
	v.reservations++
	if held.capacity.Name == "" {
		return
	}
	if v.drawn[held.capacity] -= sizeOf(held.claim); v.drawn[held.capacity] == 0 {
		delete(v.drawn, held.capacity)
	}
}

// revert undoes the assumption of a pod for which nothing was written.
func (v *volumes) revert(pod types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a := v.assumed[pod]; a != nil {
		v.drop(pod, a)
	}
}

// drop removes the pod's holds. A claim without a holder is no longer assumed. The mutex is held.
func (v *volumes) drop(pod types.UID, a *assumedPod) {
	delete(v.assumed, pod)
	for _, held := range slices.Backward(a.held) {
		delete(held.pods, pod)
		v.dropClaim(held)
	}
}

// dropClaim removes the claim's assumption if no pod holds it. The mutex is held.
func (v *volumes) dropClaim(held *assumedClaim) {
	if name := nameOf(held.claim); len(held.pods) == 0 && v.held[name] == held {
		v.binder.RevertAssumedPodVolumes(&held.assumed)
		v.releaseVolume(held)
	}
}

// taken records that all claims of the pod are bound, so there is nothing to undo.
func (v *volumes) taken(pod types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.assumed[pod]
	if a == nil {
		return
	}
	delete(v.assumed, pod)
	for _, held := range a.held {
		delete(held.pods, pod)
		if name := nameOf(held.claim); len(held.pods) == 0 && v.held[name] == held {
			v.releaseVolume(held)
		}
	}
}
