// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// catchUp is how often the binder is looked at once the informers have shown all claims as bound: it learns of both, claims and
// volumes, in its own time.
const catchUp = 10 * time.Millisecond

// errAllBound ends the binder's wait when there is nothing left to wait for.
var errAllBound = errors.New("all claims are bound")

// bind has the binder write what is assumed for the pod, and waits until all its claims are bound. The binder looks once a second,
// and for the first time after a second: it is cut short as soon as it would find all bound.
func (v *volumes) bind(ctx context.Context, pod *v1.Pod, a *assumption) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if v.awaitBound(ctx, pod, a) {
			cancel(errAllBound)
		}
	})
	err := v.binder.BindPodVolumes(ctx, pod, a.volumes)
	cancel(nil)
	watch.Wait()
	if errors.Is(context.Cause(ctx), errAllBound) {
		return nil
	}
	return err
}

// awaitBound waits until all claims of the pod are bound to volumes that its node reaches, and returns false if the context ends before.
func (v *volumes) awaitBound(ctx context.Context, pod *v1.Pod, a *assumption) bool {
	for _, held := range a.held {
		select {
		case <-held.bound:
		case <-ctx.Done():
			return false
		}
	}
	tick := time.NewTicker(catchUp)
	defer tick.Stop()
	for !v.knowsBound(pod) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// knowsBound is true if the binder knows all claims of the pod as bound to volumes that the pod's node reaches.
func (v *volumes) knowsBound(pod *v1.Pod) bool {
	bound, err := v.binder.AssumePodVolumes(klog.Background(), pod, pod.Spec.NodeName, &k8s.PodVolumes{})
	if err != nil || !bound {
		return false
	}
	node, err := v.nodes.Get(pod.Spec.NodeName)
	return err == nil && v.reaches(pod, node) == nil
}

// noteBound returns what tells those who wait for a claim that it is bound.
func (v *volumes) noteBound() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, changed any) {
		claim, ok := changed.(*v1.PersistentVolumeClaim)
		if !ok || !isBound(claim) {
			return
		}
		if held := v.heldBy(nameOf(claim)); held != nil && held.claim.UID == claim.UID {
			held.boundOnce.Do(func() { close(held.bound) })
		}
	}}
}
