// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// catchUp is how often the binder is looked at once the informers have shown all claims as bound: it learns of both, claims and
// volumes, in its own time.
const catchUp = 10 * time.Millisecond

var (
	// errAllBound ends the binder's wait when there is nothing left to wait for.
	errAllBound = errors.New("all claims are bound")
	// The errors below end the wait, because the claim can no longer be bound.
	errLost   = errors.New("has lost its volume")
	errRemade = errors.New("was deleted and recreated")
	// errUnreached is of a volume that was made for a pod on another node.
	errUnreached = errors.New("the node cannot access the pod's volumes")
)

// endsWait is true of errors after which a claim cannot be bound.
func endsWait(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errRemade) || errors.Is(err, errUnreached)
}

// bind has the binder write what is assumed for the pod, and waits until all its claims are bound. The binder looks once a second,
// and for the first time after a second: it is cut short as soon as it would find all bound. It knows nothing of volumes that are made for
// pods on other nodes.
func (v *volumes) bind(ctx context.Context, pod *v1.Pod, a *assumedPod) error {
	joined := v.joined(a)
	for _, claim := range joined { // the other pod may have been given up
		if _, err := (client{v.kube, v}).CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("selecting a node for %s: %w", describe(claim), err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		cancel(v.awaitBound(ctx, pod, a))
	})
	err := v.binder.BindPodVolumes(ctx, pod, a.volumes)
	if err == nil && len(joined) > 0 {
		watch.Wait()
	}
	cancel(nil)
	watch.Wait()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errAllBound):
		return nil
	case endsWait(cause):
		return cause
	case err != nil:
		return err
	}
	return v.verify(pod, a) // the binder identifies claims by name, and does not check their volumes
}

// awaitBound waits until all claims of the pod are bound to volumes that its node reaches. It returns an error if one can no longer
// be bound, and nil if the context ends before.
func (v *volumes) awaitBound(ctx context.Context, pod *v1.Pod, a *assumedPod) error {
	for _, held := range a.held {
		select {
		case <-held.bound:
		case <-ctx.Done():
			return nil
		}
	}
	tick := time.NewTicker(catchUp)
	defer tick.Stop()
	for {
		err := v.verify(pod, a)
		if err == nil {
			return errAllBound
		} else if endsWait(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// verify is nil if all claims of the pod are bound to volumes that the pod's node reaches, and informers and the binder show both.
func (v *volumes) verify(pod *v1.Pod, a *assumedPod) error {
	for _, held := range a.held {
		if err := v.shown(held); err != nil {
			return err
		}
	}
	bound, err := v.binder.AssumePodVolumes(klog.Background(), pod, pod.Spec.NodeName, &k8s.PodVolumes{})
	if err != nil || !bound {
		return cmp.Or(err, errNotKnown)
	}
	node, err := v.objects.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	if err := v.reaches(pod, node); err != nil {
		claims := make([]*v1.PersistentVolumeClaim, len(a.held))
		for i, held := range a.held {
			claims[i] = held.claim
		}
		return fmt.Errorf("%s: %w", describeAll(claims), err)
	}
	return nil
}

// shown is nil if informers show the claim as bound, and the volume that was reserved for it as no longer free.
func (v *volumes) shown(held *assumedClaim) error {
	claim, err := v.objects.claims.PersistentVolumeClaims(held.claim.Namespace).Get(held.claim.Name)
	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", describe(held.claim), err)
	case claim.UID != held.claim.UID:
		return fmt.Errorf("%s %w", describe(held.claim), errRemade)
	case claim.Status.Phase == v1.ClaimLost:
		return fmt.Errorf("%s %w %s", describe(claim), errLost, brief.Value(claim.Spec.VolumeName))
	case !isBound(claim):
		return errNotKnown
	case claim.Spec.VolumeName != held.volume:
		return nil
	}
	pv, err := v.objects.volumes.Get(held.volume)
	if err != nil || pv.Spec.ClaimRef == nil {
		return cmp.Or(err, errNotKnown)
	}
	return nil
}

// noteBound returns the handler that wakes the waiters of a claim when it is bound, or replaced by another of its name.
func (v *volumes) noteBound() cache.ResourceEventHandler {
	note := func(object any) {
		claim, ok := object.(*v1.PersistentVolumeClaim)
		if !ok {
			return
		}
		if held := v.heldBy(nameOf(claim)); held != nil && (held.claim.UID != claim.UID || isBound(claim)) {
			held.boundOnce.Do(func() { close(held.bound) })
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, changed any) { note(changed) }}
}
