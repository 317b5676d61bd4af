// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// heedful are clients that write nothing once their context has ended: the API server may make such a write later.
type (
	heedfulClaims struct {
		corev1.PersistentVolumeClaimInterface
	}
	heedfulVolumes struct {
		corev1.PersistentVolumeInterface
	}
)

func (h heedfulClaims) Update(ctx context.Context, claim *v1.PersistentVolumeClaim, options metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return h.PersistentVolumeClaimInterface.Update(ctx, claim, options)
}

func (h heedfulVolumes) Update(ctx context.Context, volume *v1.PersistentVolume, options metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return h.PersistentVolumeInterface.Update(ctx, volume, options)
}

// TestAWriteIsNotCutOff: a step that is cancelled in its midst knows what was written, so that its rollback finds it.
func TestAWriteIsNotCutOff(t *testing.T) {
	objects := []runtime.Object{local("v", "n1"), schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made")}
	run(t, nil, with(someNodes("n1"), objects), func(w *world) {
		w.mustPlace(member("g-0", "c", "d"), "n1")
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		volume := w.volume("v")
		volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: "c", UID: w.claim("c").UID}
		volumes := volumeClient{heedfulVolumes{w.kube.CoreV1().PersistentVolumes()}, w.plugin.volumes}
		if _, err := volumes.Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
			t.Errorf("reserving a volume: %v", err)
		}
		claims := claimClient{heedfulClaims{w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace)}, w.plugin.volumes}
		if _, err := claims.Update(ctx, w.claim("d"), metav1.UpdateOptions{}); err != nil {
			t.Errorf("selecting a node: %v", err)
		}
	})
}
