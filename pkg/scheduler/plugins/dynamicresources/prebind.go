// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

var (
	errReserved     = errors.New("no devices are reserved for the pod's claims on this node")
	errClaimDeleted = errors.New("the claim was deleted after the pod was placed")
)

// PreBind implements framework.PreBinder. It writes the allocations that are assumed for the pod's claims, and waits until the
// devices meet their binding conditions.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	if len(task.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	a := p.devices.beginPreBind(task.Pod.UID, nodeName)
	if a == nil {
		return errReserved
	}
	for _, held := range a.held {
		err := p.devices.write(ctx, held, task.Pod)
		if apierrors.IsNotFound(err) {
			err = errClaimDeleted
		}
		if err != nil {
			return fmt.Errorf("%s: %w", describeFirst(held.claim), err)
		}
	}
	return p.devices.awaitConditions(ctx, a, p.bindingTimeout)
}

// beginPreBind records that the pod's pre-bind step has begun, so that the devices of the pod's claims no longer
// change. It returns the claims that the pod holds on the node; nil if the pod holds none, or waits for devices that are in use.
func (d *devices) beginPreBind(pod types.UID, node string) *assumedPod {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.assumed[pod]
	if a == nil || a.node != node || slices.ContainsFunc(a.held, func(held *assumedClaim) bool { return held.waits }) {
		return nil
	}
	for _, held := range a.held {
		held.holders[pod].begun, held.begun = true, true
	}
	return a
}

// callTimeout is the time limit of one call to the API server, or of reading and writing one claim.
const callTimeout = 15 * time.Second

// write reserves the claim for the pod at the API server. If the claim has no allocation yet, it also writes the assumed
// allocation. The API server rejects a write if the claim has changed since it was read, so a write cannot overwrite other
// changes.
func (d *devices) write(ctx context.Context, held *assumedClaim, pod *v1.Pod) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// ctx does not cancel the write: the API server might apply a cancelled write after the rollback has read the claim.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	claim, err := d.claimNamed(held.claim.Namespace, held.claim.Name)
	// If informers show that the claim is reserved for the pod, but this step did not reserve it, the claim is read again below: the
	// reservation may have been removed since.
	if err != nil || resourceclaim.IsReservedForPod(pod, claim) && !held.reserved[pod.UID] {
		claim = nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if claim == nil {
			var err error
			if claim, err = d.kube.ResourceV1().ResourceClaims(held.claim.Namespace).Get(ctx, held.claim.Name, metav1.GetOptions{}); err != nil {
				return fmt.Errorf("reading the claim: %w", err)
			}
		}
		done, err := d.writeOnce(ctx, held, claim, pod)
		if claim = nil; err == nil {
			held.reserved[pod.UID] = true
			d.wrote(done)
		}
		return err
	})
}

func (d *devices) writeOnce(ctx context.Context, held *assumedClaim, read *resourceapi.ResourceClaim, pod *v1.Pod) (*resourceapi.ResourceClaim, error) {
	if err := held.fits(read, pod); err != nil {
		return nil, err
	}
	if resourceclaim.IsReservedForPod(pod, read) {
		return read, nil
	}
	claim, claims := read.DeepCopy(), d.kube.ResourceV1().ResourceClaims(read.Namespace)
	allocates := claim.Status.Allocation == nil
	if allocates && held.mark(claim) {
		marked, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return nil, fmt.Errorf("protecting the claim from deletion: %w", err)
		}
		claim = marked.DeepCopy()
	}
	if allocates {
		held.tried = true
		claim.Status.Allocation = held.allocation.DeepCopy()
		if d.catalog.hasConditions() {
			now := metav1.Now()
			claim.Status.Allocation.AllocationTimestamp = &now
		}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	done, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reserving the claim: %w", err)
	}
	return done, nil
}

// fits returns an error if the claim, as read from the API server, cannot get the assumed allocation or cannot be reserved for the
// pod.
func (h *assumedClaim) fits(claim *resourceapi.ResourceClaim, pod *v1.Pod) error {
	planned := cmp.Or(h.allocation, h.claim.Status.Allocation)
	switch allocation := claim.Status.Allocation; {
	case claim.UID != h.claim.UID:
		return errors.New("the claim was deleted and recreated after the pod was placed")
	case claim.DeletionTimestamp != nil:
		return errors.New("the claim is being deleted")
	case h.allocation == nil && allocation == nil:
		return errors.New("the claim is no longer allocated")
	case allocation != nil && !sameDevices(planned, allocation):
		return errors.New("the claim got another allocation in the meantime")
	case len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize && !resourceclaim.IsReservedForPod(pod, claim):
		return fmt.Errorf("the claim is used by %d pods, which is the maximum", len(claim.Status.ReservedFor))
	}
	return nil
}

// mark adds the finalizer of an allocated claim, and the annotation SchedulerAnnotation. It reports whether it has changed the
// claim.
func (h *assumedClaim) mark(claim *resourceapi.ResourceClaim) bool {
	marked, protected := claim.Annotations[SchedulerAnnotation] == h.scheduler, slices.Contains(claim.Finalizers, resourceapi.Finalizer)
	if !marked {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, SchedulerAnnotation, h.scheduler)
	}
	if !protected {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	}
	return !marked || !protected
}

// bound records that the pod no longer holds its claims, because the pod is bound. Allocations and reservations at the API server
// remain.
func (p *plugin) bound(_ context.Context, task *api.TaskInfo, _ string) {
	p.devices.drop(task.Pod.UID)
}

// Rollback implements framework.PreBinder. It removes the reservations of claims for the pod, and deallocates the claims that this
// plugin allocated and no other pod uses. Then it records that the pod no longer holds its claims.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, _ string) error {
	return p.devices.rollback(ctx, task.Pod.UID)
}

func (d *devices) rollback(ctx context.Context, pod types.UID) error {
	a := d.leave(pod)
	if a == nil {
		return nil
	}
	var errs []error
	for _, held := range slices.Backward(a.held) {
		if err := d.withdraw(ctx, held, pod); err != nil {
			errs = append(errs, fmt.Errorf("rolling back claim %s: %w", brief.Value(held.claim.Name), err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	d.drop(pod)
	return nil
}

// leave records that the pod's rollback has begun. It returns the claims that the pod holds; nil if the pod holds none. The pod
// still holds its claims until its writes are withdrawn.
func (d *devices) leave(pod types.UID) *assumedPod {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.assumed[pod]
	if a != nil {
		for _, held := range a.held {
			held.holders[pod].leaving = true
		}
	}
	return a
}
