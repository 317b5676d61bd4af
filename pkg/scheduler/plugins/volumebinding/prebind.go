// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

var (
	errGivenUp  = errors.New("its reservation no longer exists")
	errTooLate  = errors.New("not bound in time")
	errReserved = errors.New("no volumes are reserved for the pod on this node")
)

// PreBind implements framework.PreBinder. It writes the assumed state and waits until the volume controller, and the
// provisioner of a new volume, have bound all claims.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	own := claimVolumes(task.Pod)
	if len(own) == 0 {
		return nil
	}
	a := p.volumes.begin(task.Pod.UID)
	if a == nil || a.node != nodeName {
		// Nothing is reserved for claims that are all bound.
		bound, err := p.volumes.binder.AssumePodVolumes(klog.FromContext(ctx), withVolumes(task.Pod, own...), nodeName, &k8s.PodVolumes{})
		if err != nil || !bound {
			return errors.Join(err, errReserved)
		}
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.bindTimeout, errTooLate)
	defer cancel()
	pod := withVolumes(task.Pod, own...)
	pod.Spec.NodeName = nodeName
	if err := p.volumes.bind(ctx, pod, a); err != nil {
		return p.volumes.failure(ctx, a, p.bindTimeout, err)
	}
	p.volumes.taken(pod.UID)
	return nil
}

// failure returns an error that names the claims that could not be bound.
func (v *volumes) failure(ctx context.Context, a *assumedPod, limit time.Duration, err error) error {
	var waiting []*v1.PersistentVolumeClaim
	for _, held := range a.held {
		live, getErr := v.objects.claims.PersistentVolumeClaims(held.claim.Namespace).Get(held.claim.Name)
		if getErr != nil || !isBound(live) {
			waiting = append(waiting, held.claim)
		}
	}
	if len(waiting) == 0 || endsWait(err) { // all were bound meanwhile, or one can no longer be bound
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTooLate):
		return fmt.Errorf("%s: no volume was bound within %v; see the events of the claim: %w", describeAll(waiting), limit, errTooLate)
	case cause != nil:
		return fmt.Errorf("%s: %w", describeAll(waiting), cause)
	}
	return fmt.Errorf("%s: %w", describeAll(waiting), err)
}

// Rollback implements framework.PreBinder. It withdraws writes for claims that no other pod holds and that did not take effect, and
// then drops the pod's assumption.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, _ string) error {
	return p.volumes.rollback(ctx, task.Pod.UID)
}

func (v *volumes) rollback(ctx context.Context, pod types.UID) error {
	a := v.assumptionOf(pod)
	if a == nil {
		return nil
	}
	var first error
	failed := 0
	for _, held := range a.held {
		if !v.leave(held, pod) {
			continue
		}
		if err := v.withdraw(ctx, held); err != nil {
			first = cmp.Or(first, fmt.Errorf("rolling back claim %s: %w", brief.Value(held.claim.Name), err))
			failed++
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w (and %s)", first, brief.Count(failed-1, "more claim"))
	} else if failed > 0 {
		return first
	}
	v.revert(pod)
	return nil
}

// leave removes the pod's hold on the claim. It reports whether no other pod relies on the written state. Only pods
// whose steps have begun rely on it: a pod in a trial may never run a step that could undo the writes.
func (v *volumes) leave(held *assumedClaim, pod types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(held.pods, pod)
	for _, begun := range held.pods {
		if begun {
			return false
		}
	}
	return true
}

// heldBy returns the held claim; nil if it is not held.
func (v *volumes) heldBy(claim types.NamespacedName) *assumedClaim {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.held[claim]
}
