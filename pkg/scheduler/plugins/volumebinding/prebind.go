// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

var errReserved = errors.New("no volumes are reserved for the pod on this node")

// PreBind implements framework.PreBinder. At the API server, it reserves the pod's assumed volumes, or selects the pod's node for
// volumes that are to be provisioned. Then it waits until the volume controller, and for new volumes the provisioner, have bound
// all claims.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	a := p.volumes.assumptions.beginPreBind(task.Pod.UID)
	if a == nil || a.node != nodeName {
		return p.volumes.objects.allBound(task.Pod)
	}
	tooLate := fmt.Errorf("no volume was bound within %v; see the events of the claim", p.bindTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, p.bindTimeout, tooLate)
	defer cancel()
	if err := p.volumes.bind(ctx, task.Pod, a); err != nil {
		return err
	}
	p.volumes.assumptions.release(task.Pod.UID)
	return nil
}

// allBound checks the claims of a pod for which no volumes are assumed on its node. It returns an error unless all these claims
// are already bound to volumes.
func (o *objects) allBound(pod *v1.Pod) error {
	for _, own := range claimVolumes(pod) {
		if claim, err := o.claimOf(pod, own); err != nil || !isBound(claim) {
			return errors.Join(err, errReserved)
		}
	}
	return nil
}

// bind sends the writes for the pod's claims, and waits until all claims are bound.
func (v *volumes) bind(ctx context.Context, pod *v1.Pod, a *assumedPod) error {
	for i := range a.claims {
		if err := v.write(ctx, pod.UID, &a.claims[i]); err != nil {
			return fmt.Errorf("%s: %w", describe(a.claims[i].claim), err)
		}
	}
	return v.await(ctx, pod, a)
}

// Rollback implements framework.PreBinder. It withdraws the pod's writes that did not take effect, except for claims on which
// pre-bind steps of other pods rely. Then it records that the pod no longer holds its claims.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, _ string) error {
	return p.volumes.rollback(ctx, task.Pod.UID)
}

func (v *volumes) rollback(ctx context.Context, pod types.UID) error {
	a := v.assumptions.of(pod)
	if a == nil {
		return nil
	}
	var first error
	failed := 0
	for i := range a.claims {
		held := a.claims[i].held
		if !v.assumptions.leave(held, pod) {
			continue
		}
		if err := v.writer.withdraw(ctx, held); err != nil {
			first = cmp.Or(first, fmt.Errorf("rolling back claim %s: %w", brief.Value(held.claim.Name), err))
			failed++
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w (and %s)", first, brief.Count(failed-1, "more claim"))
	} else if failed > 0 {
		return first
	}
	v.assumptions.release(pod)
	return nil
}

// leave records that the pod no longer holds the claim. It reports whether no other pod relies on the writes for the claim.
// Another pod relies on the writes only if its pre-bind step has begun. Before its step begins, a pod may be released without a
// rollback, and so never withdraw the writes.
func (as *assumptions) leave(held *assumedClaim, pod types.UID) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(held.pods, pod)
	for _, begun := range held.pods {
		if begun {
			return false
		}
	}
	return true
}
