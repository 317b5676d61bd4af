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

// SchedulerAnnotation holds the scheduler's name. It is on claims if this plugin selected a node for them, and on volumes that
// the plugin reserved. Such volumes also have ClaimAnnotation with the UID of the claim that they were reserved for, because a
// user or another scheduler may later reserve a volume for another claim.
const (
	SchedulerAnnotation = "volumebinding.volcano-prebind.io/scheduler"
	ClaimAnnotation     = "volumebinding.volcano-prebind.io/claim-uid"
)

// callTimeout is the time limit for reading and writing one object.
const callTimeout = 15 * time.Second

var errGivenUp = errors.New("its reservation no longer exists")

// writer writes claims and volumes.
type writer struct {
	kube     kubernetes.Interface
	recorder record.EventRecorder
}

// writes records the write for a claim. mu is held while the write is sent.
type writes struct {
	// scheduler is the value of SchedulerAnnotation on the written object.
	scheduler string

	mu sync.Mutex
	// tried is the UID of the written object: the volume if one is reserved, else the claim. It is set once the API server may
	// have applied the write, even if it returned an error. done is the object's resource version in a successful answer.
	tried types.UID
	done  string
}

// write sends the write for the claim, unless another pod that shares the claim has sent it.
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
	case held.before != nil && held.before.UID != "": // the volume was already reserved for this claim
		return nil
	case held.tried == target && held.done != "":
		own.written = held.done
		return nil
	}
	// The write is not cancelled with ctx: an abandoned write might still be applied after the rollback has read the object.
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

// hasBegun reports whether the pod holds the claim, and the pod's pre-bind step has begun.
func (as *assumptions) hasBegun(held *assumedClaim, pod types.UID) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return held.pods[pod]
}

// reserve writes the reservation of the volume for the claim to the API server.
func (w *writer) reserve(ctx context.Context, held *assumedClaim, pv *v1.PersistentVolume) (metav1.Object, error) {
	reserved, _, err := volume.GetBindVolumeToClaim(pv, held.claim)
	if err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, SchedulerAnnotation, held.scheduler)
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, ClaimAnnotation, string(held.claim.UID))
	if held.before != nil {
		// A user reserved the volume for this claim's name, so the reservation must outlast a rollback. An
		// annotation from an earlier claim would make the volume controller undo it as a reservation of its own.
		delete(reserved.Annotations, volume.AnnBoundByController)
	}
	return w.kube.CoreV1().PersistentVolumes().Update(ctx, reserved, metav1.UpdateOptions{})
}

// selectNode writes the selected node to the claim, so that its volume is provisioned for this node.
func (w *writer) selectNode(ctx context.Context, held *assumedClaim, claim *v1.PersistentVolumeClaim) (metav1.Object, error) {
	selected := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, volume.AnnSelectedNode, held.node)
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, SchedulerAnnotation, held.scheduler)
	return w.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, selected, metav1.UpdateOptions{})
}
