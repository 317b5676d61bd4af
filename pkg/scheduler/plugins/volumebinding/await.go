// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// errPending is of a claim that is not bound yet.
var errPending = errors.New("is not bound yet")

// await waits until the informers show all claims of the pod as bound to volumes that its node reaches. Otherwise it
// returns why a claim can no longer be bound, or the cause of the context's end.
func (v *volumes) await(ctx context.Context, pod *v1.Pod, a *assumption) error {
	for {
		if err := v.settled(pod, a); !errors.Is(err, errPending) {
			return err
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled returns nil if all claims of the pod are bound, errPending if they may be later, and another error if one
// can no longer be bound.
func (v *volumes) settled(pod *v1.Pod, a *assumption) error {
	node, err := v.objects.nodes.Get(a.node)
	if err != nil {
		return fmt.Errorf("reading node %s: %w", a.node, err)
	}
	var pending error
	for _, of := range claimVolumes(pod) {
		err := v.claimSettled(of.claim, a.own(of.claim), node)
		if errors.Is(err, errPending) {
			pending = err
		} else if err != nil {
			return err
		}
	}
	if pending == nil {
		return nil
	}
	if live, err := v.objects.pods.Pods(pod.Namespace).Get(pod.Name); apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID {
		return errors.New("the pod no longer exists")
	}
	return pending
}

// claimSettled does for one claim what settled does for all. own is nil for a claim that was bound when its pod was
// placed.
func (v *volumes) claimSettled(name types.NamespacedName, own *ownClaim, node *v1.Node) error {
	claim, err := v.objects.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("claim %s was deleted", brief.Value(name.Name))
	case err != nil:
		return fmt.Errorf("reading claim %s: %w", brief.Value(name.Name), err)
	case own != nil && claim.UID != own.held.claim.UID:
		return fmt.Errorf("%s was deleted and recreated", describe(claim))
	case claim.Status.Phase == v1.ClaimLost:
		return fmt.Errorf("%s has lost its volume %s", describe(claim), brief.Value(claim.Spec.VolumeName))
	case isBound(claim):
		return v.boundSettled(claim, own, node)
	case own == nil:
		return fmt.Errorf("%s is no longer bound", describe(claim))
	case own.volume != nil:
		return v.reservationSettled(own, node)
	}
	return v.selectionSettled(claim, own, node)
}

// boundSettled returns errPending for a bound claim if the informers do not show its volume, or do not show it as bound
// to the claim: it would be free to others.
func (v *volumes) boundSettled(claim *v1.PersistentVolumeClaim, own *ownClaim, node *v1.Node) error {
	pv, err := v.objects.volumes.Get(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return errPending
	}
	if err == nil {
		err = v.objects.reaches(pv, node)
	}
	if err != nil {
		return fmt.Errorf("volume %s of %s: %w", brief.Value(claim.Spec.VolumeName), describe(claim), err)
	}
	if own != nil && !volume.IsVolumeBoundToClaim(pv, claim) {
		return errPending
	}
	return nil
}

// reservationSettled returns an error for a claim whose volume is reserved, and can no longer be bound to it.
func (v *volumes) reservationSettled(own *ownClaim, node *v1.Node) error {
	held := own.held
	pv, err := v.objects.volumes.Get(held.volume)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("volume %s, which is reserved for %s, was deleted", brief.Value(held.volume), describe(held.claim))
	case err != nil:
		return fmt.Errorf("reading volume %s: %w", brief.Value(held.volume), err)
	case isOlder(pv, own.written):
		return errPending
	case !isReservedFor(pv, held.claim):
		return notReserved(held)
	}
	if err := v.objects.reaches(pv, node); err != nil {
		return fmt.Errorf("volume %s of %s: %w", brief.Value(held.volume), describe(held.claim), err)
	}
	return errPending
}

// selectionSettled returns an error for a claim whose provisioner has given up, or made a volume that the node does
// not reach.
func (v *volumes) selectionSettled(claim *v1.PersistentVolumeClaim, own *ownClaim, node *v1.Node) error {
	if isOlder(claim, own.written) {
		return errPending
	}
	if claim.Annotations[volume.AnnSelectedNode] != own.held.node {
		return fmt.Errorf("provisioning failed for %s: node %s is no longer selected for it; see the events of the claim", describe(claim), own.held.node)
	}
	if claim.Spec.VolumeName == "" {
		return errPending
	}
	return cmp.Or(v.boundSettled(claim, own, node), errPending)
}

// isOlder reports whether the object is of an earlier version. Without a version it is not.
func isOlder(object metav1.Object, version string) bool {
	shown, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	written, _ := strconv.ParseUint(version, 10, 64)
	return shown < written
}

// watch has changes of claims and volumes, and deletions of pods and nodes, wake the steps that wait.
func (v *volumes) watch(core coreinformers.Interface) error {
	deleted := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		v.wake(object)
	}
	deletions := cache.ResourceEventHandlerFuncs{DeleteFunc: deleted}
	changes := cache.ResourceEventHandlerFuncs{AddFunc: v.wake, UpdateFunc: func(_, now any) { v.wake(now) }, DeleteFunc: deleted}
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

// wake wakes the steps that the object concerns.
func (v *volumes) wake(object any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		v.wakeHolders(v.held[nameOf(o)])
	case *v1.PersistentVolume:
		v.wakeHolders(v.reserved[o.Name])
		if ref := o.Spec.ClaimRef; ref != nil {
			v.wakeHolders(v.held[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}])
		}
	case *v1.Pod:
		v.assumed[o.UID].wake()
	case *v1.Node:
		for _, a := range v.assumed {
			if a.node == o.Name {
				a.wake()
			}
		}
	}
}

// wakeHolders wakes the steps of the pods that hold the claim; none for nil. The mutex is held.
func (v *volumes) wakeHolders(held *heldClaim) {
	if held == nil {
		return
	}
	for pod := range held.pods {
		v.assumed[pod].wake()
	}
}

// wake has the pod's step look again; nil is no pod's.
func (a *assumption) wake() {
	if a == nil {
		return
	}
	select {
	case a.changed <- struct{}{}:
	default: // it has not looked since the last change
	}
}
