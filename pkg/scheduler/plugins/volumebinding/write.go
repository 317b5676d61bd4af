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

// SchedulerAnnotation is set to the scheduler's name on claims for which this plugin selected a node, and on volumes that it
// reserved. On such volumes, ClaimAnnotation is set to the UID of the claim. It shows whether a user or another scheduler has
// reserved the volume for another claim since.
const (
	SchedulerAnnotation = "volumebinding.volcano-prebind.io/scheduler"
	ClaimAnnotation     = "volumebinding.volcano-prebind.io/claim-uid"
)

// callTimeout is the time limit of one call to the API server, or of reading and writing one object.
const callTimeout = 15 * time.Second

var errGivenUp = errors.New("the volumes reserved for the pod were released before the bind")

// writer updates claims and volumes at the API server, and writes events on volumes.
type writer struct {
	kube     kubernetes.Interface
	recorder record.EventRecorder
}

// writes records the write for a claim. mu is held while the write is sent, and guards the fields below it.
type writes struct {
	// scheduler is the value of SchedulerAnnotation that this plugin writes to the object.
	scheduler string

	mu sync.Mutex
	// tried is the UID of the written object: of the volume if a volume is reserved, otherwise of the claim. It is set before the
	// write is sent, because the API server may apply the write even if it returns an error. done is the object's resource version
	// after a successful write.
	tried types.UID
	done  string
}

// write sends the write for the claim, unless another pod that shares the claim has already sent it.
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
	case held.before != nil && held.before.UID != "": // the volume was already reserved for the claim before the pod was placed
		return nil
	case held.tried == target && held.done != "":
		own.written = held.done
		return nil
	}
	// ctx does not cancel the write: the API server might apply a cancelled write after the rollback has read the object.
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

// reserve reserves the volume for the claim at the API server.
func (w *writer) reserve(ctx context.Context, held *assumedClaim, pv *v1.PersistentVolume) (metav1.Object, error) {
	reserved, _, err := volume.GetBindVolumeToClaim(pv, held.claim)
	if err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, SchedulerAnnotation, held.scheduler)
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, ClaimAnnotation, string(held.claim.UID))
	if held.before != nil {
		// A user reserved the volume for this claim's name, so this reservation must outlast a rollback. An earlier claim may have
		// left the annotation AnnBoundByController. It would make the volume controller remove the user's reservation, as if the
		// controller had written it.
		delete(reserved.Annotations, volume.AnnBoundByController)
	}
	return w.kube.CoreV1().PersistentVolumes().Update(ctx, reserved, metav1.UpdateOptions{})
}

// selectNode writes the selected node to the claim, so that a provisioner creates the claim's volume for this node.
func (w *writer) selectNode(ctx context.Context, held *assumedClaim, claim *v1.PersistentVolumeClaim) (metav1.Object, error) {
	selected := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, volume.AnnSelectedNode, held.node)
	metav1.SetMetaDataAnnotation(&selected.ObjectMeta, SchedulerAnnotation, held.scheduler)
	return w.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, selected, metav1.UpdateOptions{})
}
