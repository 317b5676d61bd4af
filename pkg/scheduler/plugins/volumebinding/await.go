// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// await waits until the informers show that all claims of the pod are bound to volumes that the pod's node reaches. It returns an
// error if a claim can no longer be bound, or if the context ends.
func (v *volumes) await(ctx context.Context, pod *v1.Pod, a *assumedPod) error {
	for {
		waiting, err := v.objects.waiting(pod, a)
		if err != nil || len(waiting) == 0 {
			return err
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", describeAll(waiting), context.Cause(ctx))
		}
	}
}

// waiting returns the pod's claims that are not bound yet. It returns an error if one of these claims can no longer be bound, if
// the node no longer exists, or if the pod was deleted or recreated.
func (o *objects) waiting(pod *v1.Pod, a *assumedPod) ([]*v1.PersistentVolumeClaim, error) {
	node, err := o.nodes.Get(a.node)
	if err != nil {
		return nil, fmt.Errorf("node %s no longer exists", a.node)
	}
	var waiting []*v1.PersistentVolumeClaim
	look := func(claim *v1.PersistentVolumeClaim, own *ownClaim) error {
		settled, err := o.settled(claim, own, node)
		if err == nil && !settled {
			waiting = append(waiting, claim)
		}
		return err
	}
	for i := range a.claims {
		if err := look(a.claims[i].claim, &a.claims[i]); err != nil {
			return nil, err
		}
	}
	for _, claim := range a.bound {
		if err := look(claim, nil); err != nil {
			return nil, err
		}
	}
	if len(waiting) == 0 {
		return nil, nil
	}
	live, err := o.pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && live.UID != pod.UID {
		err = errors.New("the pod was deleted and recreated")
	}
	return waiting, err
}

// settled reports whether the informers show the claim as bound to a volume that the node reaches. It returns an error if the
// claim can no longer be bound to such a volume. was is the claim when its pod was placed. own is nil if the claim was already
// bound then.
func (o *objects) settled(was *v1.PersistentVolumeClaim, own *ownClaim, node *v1.Node) (bool, error) {
	claim, err := o.claims.PersistentVolumeClaims(was.Namespace).Get(was.Name)
	switch {
	case err != nil:
		return false, fmt.Errorf("%s was deleted", describe(was))
	case claim.UID != was.UID:
		return false, fmt.Errorf("%s was deleted and recreated", describe(claim))
	case claim.Status.Phase == v1.ClaimLost:
		return false, fmt.Errorf("%s has lost its volume %s", describe(claim), brief.Value(claim.Spec.VolumeName))
	case isBound(claim):
		return o.boundSettled(claim, own, node)
	case own == nil:
		return false, fmt.Errorf("%s is no longer bound", describe(claim))
	case own.volume != nil:
		return false, o.stillReserved(own)
	case !isOlder(claim, own.written) && claim.Annotations[volume.AnnSelectedNode] != own.held.node:
		return false, fmt.Errorf("provisioning failed for %s: node %s is no longer selected for it; see the events of the claim", describe(claim), own.held.node)
	}
	return false, nil
}

// boundSettled reports whether the informers also show the volume of a bound claim. If the plugin assumed the volume for the
// claim, the informers must show it as bound to the claim. Otherwise other claims might find the volume free.
func (o *objects) boundSettled(claim *v1.PersistentVolumeClaim, own *ownClaim, node *v1.Node) (bool, error) {
	pv, err := o.volumes.Get(claim.Spec.VolumeName)
	switch {
	case err != nil && own == nil: // the claim was bound when the pod was placed, so its volume was deleted since
		return false, fmt.Errorf("volume %s of %s was deleted", brief.Value(claim.Spec.VolumeName), describe(claim))
	case err != nil:
		return false, nil // the informer does not show the volume yet
	}
	if err := o.reaches(pv, node); err != nil {
		return false, fmt.Errorf("volume %s of %s: %w", brief.Value(claim.Spec.VolumeName), describe(claim), err)
	}
	return own == nil || volume.IsVolumeBoundToClaim(pv, claim), nil
}

// stillReserved returns an error if the informers show that the volume found for the claim is no longer reserved for that claim.
func (o *objects) stillReserved(own *ownClaim) error {
	pv, err := o.volumes.Get(own.held.volume)
	switch {
	case err != nil:
		return fmt.Errorf("volume %s of %s was deleted", brief.Value(own.held.volume), describe(own.claim))
	case !isOlder(pv, own.written) && (!volume.IsVolumeBoundToClaim(pv, own.claim) || pv.Spec.ClaimRef.UID == ""):
		return fmt.Errorf("volume %s is no longer reserved for %s", brief.Value(pv.Name), describe(own.claim))
	}
	return nil
}

// isOlder reports whether the object's resource version is lower than version. It returns false if version is empty.
func isOlder(object metav1.Object, version string) bool {
	shown, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	written, _ := strconv.ParseUint(version, 10, 64)
	return shown < written
}

// watch registers event handlers that notify the pre-bind steps of waiting pods. Changes of claims and volumes, and deletions of
// pods and nodes, notify them.
func (as *assumptions) watch(core coreinformers.Interface) error {
	deleted := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		as.wake(object)
	}
	deletions := cache.ResourceEventHandlerFuncs{DeleteFunc: deleted}
	changes := cache.ResourceEventHandlerFuncs{AddFunc: as.wake, UpdateFunc: func(_, now any) { as.wake(now) }, DeleteFunc: deleted}
	var errs []error
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		core.PersistentVolumeClaims().Informer(): changes, core.PersistentVolumes().Informer(): changes,
		core.Pods().Informer(): deletions, core.Nodes().Informer(): deletions,
	} {
		_, err := informer.AddEventHandler(handler)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// wake notifies the pre-bind steps that wait for a change of the object. The object is a claim, volume, pod or node.
func (as *assumptions) wake(object any) {
	as.mu.Lock()
	defer as.mu.Unlock()
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		as.wakeHolders(as.held[nameOf(o)])
	case *v1.PersistentVolume:
		as.wakeHolders(as.reserved[o.Name])
		if ref := o.Spec.ClaimRef; ref != nil {
			as.wakeHolders(as.held[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}])
		}
	case *v1.Pod:
		as.assumed[o.UID].wake()
	case *v1.Node:
		for _, a := range as.assumed {
			if a.node == o.Name {
				a.wake()
			}
		}
	}
}

// wakeHolders notifies the pre-bind steps of the pods that hold the claim. held may be nil. The caller holds assumptions.mu.
func (as *assumptions) wakeHolders(held *assumedClaim) {
	if held == nil {
		return
	}
	for pod := range held.pods {
		as.assumed[pod].wake()
	}
}

// wake notifies the pod's pre-bind step, which then checks the pod's claims again. a may be nil.
func (a *assumedPod) wake() {
	if a == nil {
		return
	}
	select {
	case a.changed <- struct{}{}:
	default: // the step has not processed an earlier notification yet
	}
}
