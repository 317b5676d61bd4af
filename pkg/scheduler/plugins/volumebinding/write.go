// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// SchedulerAnnotation marks claims with a node that this plugin selected, and volumes that it reserved, with the
// scheduler's name. ClaimAnnotation is on such volumes. It holds the UID of the claim that they were reserved for,
// because others may later reserve them for another.
const (
	SchedulerAnnotation = "volumebinding.volcano-prebind.io/scheduler"
	ClaimAnnotation     = "volumebinding.volcano-prebind.io/claim-uid"
)

// callTimeout bounds one read and write of an object.
const callTimeout = 15 * time.Second

var errGivenUp = errors.New("its reservation no longer exists")

// schedulerOf returns the name of the scheduler that places the pod: the pod's scheduler name, and if several
// schedulers share that name, also this scheduler's own. Upstream reads these variables, too.
func schedulerOf(pod *v1.Pod) string { return withOwnName(pod.Spec.SchedulerName) }

func withOwnName(scheduler string) string {
	if os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" {
		return scheduler + "/" + os.Getenv("SCHEDULER_POD_NAME")
	}
	return scheduler
}

// writes records the writes for a claim. Its mutex is held during a write.
type writes struct {
	// scheduler is the name with which the written objects are marked.
	scheduler string

	mu sync.Mutex
	// nodeTried reports whether the API server may have applied the selection of a node, whatever it answered, and
	// volumeTried is the UID of the volume whose reservation it may have applied.
	nodeTried   bool
	volumeTried types.UID
	// nodeDone and volumeDone are the versions of the claim and the volume in its answers.
	nodeDone, volumeDone string
}

// write reserves the volume for the claim, or selects the node where it is provisioned, unless another pod that shares
// the claim has done so.
func (v *volumes) write(ctx context.Context, pod types.UID, own *ownClaim) error {
	held := own.held
	held.mu.Lock()
	defer held.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !v.hasBegun(held, pod):
		return errGivenUp
	case own.volume != nil:
		return v.reserve(ctx, own)
	}
	return v.selectNode(ctx, own)
}

// hasBegun reports whether the pod holds the claim in its step.
func (v *volumes) hasBegun(held *heldClaim, pod types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return held.pods[pod]
}

func (v *volumes) reserve(ctx context.Context, own *ownClaim) error {
	held := own.held
	if held.volumeDone != "" && held.volumeTried == own.volume.UID {
		own.written = held.volumeDone
		return nil
	}
	if held.before != nil && held.before.UID != "" { // the claim's own volume, not reserved by this scheduler
		return v.stillReserved(ctx, held)
	}
	reserved, _, err := volumehelpers.GetBindVolumeToClaim(own.volume, held.claim)
	if err != nil {
		return err
	}
	held.mark(reserved)
	held.volumeTried, held.volumeDone = reserved.UID, ""
	ctx, cancel := uncut(ctx)
	defer cancel()
	done, err := v.kube.CoreV1().PersistentVolumes().Update(ctx, reserved, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("reserving volume %s: %w", brief.Value(reserved.Name), err)
	}
	held.volumeDone, own.written = done.ResourceVersion, done.ResourceVersion
	return nil
}

// stillReserved returns an error if the volume, which was reserved for the claim in the session, no longer is.
func (v *volumes) stillReserved(ctx context.Context, held *heldClaim) error {
	now, err := v.kube.CoreV1().PersistentVolumes().Get(ctx, held.volume, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", brief.Value(held.volume), err)
	}
	if !isReservedFor(now, held.claim) {
		return notReserved(held)
	}
	return nil
}

// isReservedFor reports whether the volume is reserved for this claim, and not just for one of its name.
func isReservedFor(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return volumehelpers.IsVolumeBoundToClaim(pv, claim) && pv.Spec.ClaimRef.UID != ""
}

func notReserved(held *heldClaim) error {
	return fmt.Errorf("volume %s is no longer reserved for %s", brief.Value(held.volume), describe(held.claim))
}

// mark adds the scheduler's mark to the volume.
func (h *heldClaim) mark(pv *v1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, SchedulerAnnotation, h.scheduler)
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, ClaimAnnotation, string(h.claim.UID))
	if h.before != nil {
		// A user reserved it, so it stays reserved. The annotation, which says otherwise to the volume controller, is
		// from an earlier claim.
		delete(pv.Annotations, volumehelpers.AnnBoundByController)
	}
}

func (v *volumes) selectNode(ctx context.Context, own *ownClaim) error {
	held := own.held
	if held.nodeDone != "" {
		own.written = held.nodeDone
		return nil
	}
	claim := own.claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelpers.AnnSelectedNode, held.node)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, SchedulerAnnotation, held.scheduler)
	held.nodeTried = true
	ctx, cancel := uncut(ctx)
	defer cancel()
	done, err := v.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("selecting node %s: %w", held.node, err)
	}
	held.nodeDone, own.written = done.ResourceVersion, done.ResourceVersion
	return nil
}

// uncut returns a context for a write that is not cancelled with ctx: an abandoned write might still be applied after
// the rollback has read the object.
func uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}
