// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"fmt"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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

// schedulerOf returns the name of the scheduler that places the pod: the pod's scheduler name, and if several
// schedulers share that name, also this scheduler's own. Upstream reads these variables, too.
func schedulerOf(pod *v1.Pod) string { return withOwnName(pod.Spec.SchedulerName) }

func withOwnName(scheduler string) string {
	if os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" {
		return scheduler + "/" + os.Getenv("SCHEDULER_POD_NAME")
	}
	return scheduler
}

// writes records the writes for a claim.
type writes struct {
	// scheduler is the name with which the written objects are marked.
	scheduler string

	mu sync.Mutex
	// triedClaim and triedVolume are the objects of writes that the API server may have applied, whatever it answered.
	triedClaim, triedVolume metav1.Object
	// claimDone and volumeDone are the answers.
	claimDone  *v1.PersistentVolumeClaim
	volumeDone *v1.PersistentVolume
	// unbound is a version in which the volume was not bound. It is not later than the first version that may have been
	// written. It is empty if the volume was bound.
	unbound string
}

// client is the client with which the binder writes. If members share a claim, it sends their common writes once.
type client struct {
	kubernetes.Interface
	of *volumes
}

func (c client) CoreV1() corev1.CoreV1Interface { return coreClient{c.Interface.CoreV1(), c.of} }

type coreClient struct {
	corev1.CoreV1Interface
	of *volumes
}

func (c coreClient) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumeClient{c.CoreV1Interface.PersistentVolumes(), c.of}
}

func (c coreClient) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return claimClient{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.of}
}

type volumeClient struct {
	corev1.PersistentVolumeInterface
	of *volumes
}

// Update reserves the volume for its claim.
func (c volumeClient) Update(ctx context.Context, volume *v1.PersistentVolume, opts metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	held := c.of.heldBy(types.NamespacedName{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name})
	if held == nil {
		return nil, errGivenUp
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if done := held.volumeDone; done != nil && done.UID == volume.UID {
		return done, nil
	}
	if held.before != nil && held.before.UID != "" { // the claim's own volume, not reserved by this scheduler
		return c.stillReserved(ctx, held, volume)
	}
	first := held.triedVolume == nil
	if first {
		held.unbound = versionUnbound(volume)
	}
	marked := held.mark(volume)
	held.triedVolume = marked
	ctx, cancel := uncut(ctx)
	defer cancel()
	done, err := c.PersistentVolumeInterface.Update(ctx, marked, opts)
	if err != nil {
		return done, err
	}
	if held.volumeDone = done; first {
		held.unbound = versionUnbound(done)
	}
	return done, nil
}

// stillReserved returns the current version of the volume, which was reserved for the claim in the session. It returns
// an error if the volume is no longer reserved.
func (c volumeClient) stillReserved(ctx context.Context, held *assumedClaim, volume *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	now, err := c.Get(ctx, volume.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if ref := now.Spec.ClaimRef; ref == nil || ref.UID != held.claim.UID {
		return nil, fmt.Errorf("volume %s is no longer reserved for claim %s", brief.Value(volume.Name), brief.Value(held.claim.Name))
	}
	return volume, nil
}

// uncut returns a context for a write that is not cancelled with ctx: an abandoned write might still be applied after
// the rollback has read the object.
func uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

// mark returns a copy of the volume with the scheduler's mark, ready to be written.
func (h *assumedClaim) mark(volume *v1.PersistentVolume) *v1.PersistentVolume {
	marked := volume.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, SchedulerAnnotation, h.scheduler)
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, ClaimAnnotation, string(h.claim.UID))
	if h.before != nil {
		// A user reserved it, so it stays reserved. The annotation, which says otherwise to the volume controller, is
		// from an earlier claim.
		delete(marked.Annotations, volumehelpers.AnnBoundByController)
	}
	return marked
}

// versionUnbound returns the volume's version if the volume is not bound in it, and is not waiting to be freed;
// otherwise empty.
func versionUnbound(volume *v1.PersistentVolume) string {
	switch volume.Status.Phase {
	case v1.VolumeBound, v1.VolumeReleased, v1.VolumeFailed:
		return ""
	}
	return volume.ResourceVersion
}

type claimClient struct {
	corev1.PersistentVolumeClaimInterface
	of *volumes
}

// Update writes the node on which the claim's volume is to be provisioned.
func (c claimClient) Update(ctx context.Context, claim *v1.PersistentVolumeClaim, opts metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	held := c.of.heldBy(nameOf(claim))
	if held == nil {
		return nil, errGivenUp
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if done := held.claimDone; done != nil && done.UID == claim.UID {
		return done, nil
	}
	marked := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, SchedulerAnnotation, held.scheduler)
	held.triedClaim = marked
	ctx, cancel := uncut(ctx)
	defer cancel()
	done, err := c.PersistentVolumeClaimInterface.Update(ctx, marked, opts)
	if err == nil {
		held.claimDone = done
	}
	return done, err
}
