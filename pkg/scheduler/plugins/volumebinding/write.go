// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"
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

// writer writes claims and volumes.
type writer struct {
	kube     kubernetes.Interface
	recorder record.EventRecorder
}

// writes records the writes for a claim. Its mutex is held during a write.
type writes struct {
	// scheduler is the name with which the written object is marked.
	scheduler string

	mu sync.Mutex
	// tried is the UID of the written object, which is the volume that is reserved, otherwise the claim. It is set once
	// the API server may have applied the write, whatever it answered. done is the object's version in the answer.
	tried types.UID
	done  string
}

// write sends the write for the claim, unless a pod that shares the claim has done so.
func (v *volumes) write(ctx context.Context, pod types.UID, own *ownClaim) error {
	held, target := own.held, own.claim.UID
	if own.volume != nil {
		target = own.volume.UID
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !v.assumptions.hasBegun(held, pod):
		return errGivenUp
	case held.before != nil && held.before.UID != "": // the claim's own volume, not reserved by this scheduler
		return nil
	case held.tried == target && held.done != "":
		own.written = held.done
		return nil
	}
	// The write is not cancelled with ctx: an abandoned one might still be applied after the rollback has read the object.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	held.tried, held.done = target, ""
	var done metav1.Object
	var err error
	if own.volume != nil {
		done, err = v.writer.reserve(ctx, held, own.volume)
	} else {
		done, err = v.writer.selectNode(ctx, held, own.claim)
	}
	if err != nil {
		return err
	}
	held.done, own.written = done.GetResourceVersion(), done.GetResourceVersion()
	return nil
}

// hasBegun reports whether the pod holds the claim in its step.
func (as *assumptions) hasBegun(held *assumedClaim, pod types.UID) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return held.pods[pod]
}

// reserve reserves the volume for the claim.
func (w *writer) reserve(ctx context.Context, held *assumedClaim, pv *v1.PersistentVolume) (metav1.Object, error) {
	reserved, _, err := volume.GetBindVolumeToClaim(pv, held.claim)
	if err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, SchedulerAnnotation, held.scheduler)
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, ClaimAnnotation, string(held.claim.UID))
	if held.before != nil {
		// A user reserved it, so it stays reserved. The annotation, which says otherwise to the volume controller, is
		// from an earlier claim.
		delete(reserved.Annotations, volume.AnnBoundByController)
	}
	return w.kube.CoreV1().PersistentVolumes().Update(ctx, reserved, metav1.UpdateOptions{})
}

// selectNode writes the node on which the claim's volume is to be provisioned.
func (w *writer) selectNode(ctx context.Context, held *assumedClaim, claim *v1.PersistentVolumeClaim) (metav1.Object, error) {
	selected := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, volume.AnnSelectedNode, held.node)
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, SchedulerAnnotation, held.scheduler)
	return w.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, selected, metav1.UpdateOptions{})
}
