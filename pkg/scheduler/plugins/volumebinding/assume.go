// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// assumption is what is assumed for a pod on a node: the claims it holds, and what the binder is to bind.
type assumption struct {
	node    string
	volumes *k8s.PodVolumes
	held    []*heldClaim
}

// heldClaim is a claim whose volume is assumed. Pods that share the claim hold it together.
type heldClaim struct {
	claim *v1.PersistentVolumeClaim
	node  string
	// pods are those that hold it, and assumed what undoes the assumption when none does any more. The mutex of volumes guards
	// both.
	pods    map[types.UID]bool
	assumed k8s.PodVolumes

	writes
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// stateNow changes with what is assumed.
func (v *volumes) stateNow() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// assumptionOf returns what is assumed for the pod; nil when nothing is.
func (v *volumes) assumptionOf(pod types.UID) *assumption {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.assumed[pod]
}

// assume has the binder take volumes for the pod's claims on the node, as they are now. The claims are asked for one by one, in the
// order in which the binder matches those of a pod, the smallest first: so that it is known which claim has what, and what is
// taken for one is not given to the next. An error leaves everything as it was.
func (v *volumes) assume(pod *v1.Pod, node *v1.Node) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a := v.assumed[pod.UID]; a != nil {
		return fmt.Errorf("those reserved for the pod on node %s are not given back yet", a.node)
	}
	wanted, err := v.bySize(pod)
	if err != nil {
		return err
	}
	v.state++
	a := &assumption{node: node.Name, volumes: &k8s.PodVolumes{StaticBindings: []*k8s.BindingInfo{}, DynamicProvisions: []*k8s.DynamicProvision{}}}
	for _, w := range wanted {
		if err := v.assumeClaim(a, pod, w, node); err != nil {
			v.drop(pod.UID, a)
			return err
		}
	}
	if len(a.held) > 0 {
		v.assumed[pod.UID] = a
	}
	return nil
}

// wantedClaim is a claim of a pod.
type wantedClaim struct {
	claimVolume
	*v1.PersistentVolumeClaim
}

func (v *volumes) bySize(pod *v1.Pod) ([]wantedClaim, error) {
	var wanted []wantedClaim
	for _, own := range claimVolumes(pod) {
		claim, err := v.claimOf(pod, own)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, wantedClaim{own, claim})
	}
	slices.SortStableFunc(wanted, func(l, r wantedClaim) int {
		left, right := l.Spec.Resources.Requests[v1.ResourceStorage], r.Spec.Resources.Requests[v1.ResourceStorage]
		return cmp.Or(left.Cmp(right), cmp.Compare(l.Name, r.Name))
	})
	return wanted, nil
}

// errNotBound is of a claim that the binder has neither a volume nor a place for. It may see a claim later than the lister does.
var errNotBound = errors.New("it is not known as bound yet")

// assumeClaim adds one claim to the assumption. Of a claim that is bound the binder knows the node's verdict, and nothing is
// assumed.
func (v *volumes) assumeClaim(a *assumption, pod *v1.Pod, w wantedClaim, node *v1.Node) error {
	single := withVolumes(pod, w.claimVolume)
	bound, err := v.binder.AssumePodVolumes(klog.Background(), single, node.Name, &k8s.PodVolumes{})
	if err != nil {
		return fmt.Errorf("%s: %w", describe(w.PersistentVolumeClaim), err)
	}
	claims, err := v.binder.GetPodVolumeClaims(klog.Background(), single)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(w.PersistentVolumeClaim), err)
	}
	found, reasons, err := v.find(single, claims, node)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", describe(w.PersistentVolumeClaim), err)
	case len(reasons) > 0:
		return fmt.Errorf("%s: %v", describe(w.PersistentVolumeClaim), reasons)
	case bound:
		return nil
	case len(found.StaticBindings)+len(found.DynamicProvisions) == 0:
		return fmt.Errorf("%s: %w", describe(w.PersistentVolumeClaim), errNotBound)
	}
	held, shared := v.held[w.claim]
	if shared && (len(held.pods) == 0 || held.claim.UID != w.UID) {
		return fmt.Errorf("%s: it is being given back", describe(w.PersistentVolumeClaim))
	}
	if boundNow, err := v.binder.AssumePodVolumes(klog.Background(), single, node.Name, found); err != nil || boundNow {
		return fmt.Errorf("%s: %w", describe(w.PersistentVolumeClaim), cmp.Or(err, errNotBound))
	}
	if !shared {
		held = &heldClaim{claim: w.PersistentVolumeClaim, node: node.Name, pods: map[types.UID]bool{}, writes: writes{scheduler: schedulerOf(pod)}}
		v.held[w.claim] = held
	}
	held.pods[pod.UID] = true
	held.assumed.StaticBindings = append(held.assumed.StaticBindings, found.StaticBindings...)
	held.assumed.DynamicProvisions = append(held.assumed.DynamicProvisions, found.DynamicProvisions...)
	a.held = append(a.held, held)
	a.volumes.StaticBindings = append(a.volumes.StaticBindings, found.StaticBindings...)
	a.volumes.DynamicProvisions = append(a.volumes.DynamicProvisions, found.DynamicProvisions...)
	return nil
}

// revert undoes what was assumed for a pod for which nothing was written.
func (v *volumes) revert(pod types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a := v.assumed[pod]; a != nil {
		v.drop(pod, a)
	}
}

// drop has the pod hold nothing any more. What nobody holds is not assumed any more. The mutex is held.
func (v *volumes) drop(pod types.UID, a *assumption) {
	v.state++
	delete(v.assumed, pod)
	for _, held := range slices.Backward(a.held) {
		delete(held.pods, pod)
		v.dropClaim(held)
	}
}

// dropClaim gives up the claim if nobody holds it. The mutex is held.
func (v *volumes) dropClaim(held *heldClaim) {
	if name := nameOf(held.claim); len(held.pods) == 0 && v.held[name] == held {
		v.binder.RevertAssumedPodVolumes(&held.assumed)
		delete(v.held, name)
	}
}

// taken notes that all that the pod holds is bound: there is nothing to undo any more.
func (v *volumes) taken(pod types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.assumed[pod]
	if a == nil {
		return
	}
	v.state++
	delete(v.assumed, pod)
	for _, held := range a.held {
		delete(held.pods, pod)
		if name := nameOf(held.claim); len(held.pods) == 0 && v.held[name] == held {
			delete(v.held, name)
		}
	}
}
