// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// heedful are clients that cancel the step before each write. They return an error instead of writing if the context of
// the write has ended, whereas a real API server might apply the write later.
type (
	heedful struct {
		kubernetes.Interface
		corev1.CoreV1Interface
		cancel func()
	}
	heedfulClaims struct {
		corev1.PersistentVolumeClaimInterface
		cancel func()
	}
	heedfulVolumes struct {
		corev1.PersistentVolumeInterface
		cancel func()
	}
)

func (h heedful) CoreV1() corev1.CoreV1Interface { return h }

func (h heedful) PersistentVolumes() corev1.PersistentVolumeInterface {
	return heedfulVolumes{h.CoreV1Interface.PersistentVolumes(), h.cancel}
}

func (h heedful) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return heedfulClaims{h.CoreV1Interface.PersistentVolumeClaims(namespace), h.cancel}
}

func (h heedfulClaims) Update(ctx context.Context, claim *v1.PersistentVolumeClaim, options metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	h.cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return h.PersistentVolumeClaimInterface.Update(ctx, claim, options)
}

func (h heedfulVolumes) Update(ctx context.Context, volume *v1.PersistentVolume, options metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	h.cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return h.PersistentVolumeInterface.Update(ctx, volume, options)
}

// TestAWriteIsNotCutOff: a write continues if the step is cancelled, so that the step knows the result and the rollback
// withdraws it.
func TestAWriteIsNotCutOff(t *testing.T) {
	for class, want := range map[string]string{"local": "persistentvolumes v", "made": "persistentvolumeclaims c"} {
		t.Run(class, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), []runtime.Object{local("v", "n1"), schedtest.UnboundClaim("c", class)}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				w.written()
				ctx, cancel := context.WithCancel(w.t.Context())
				w.plugin.volumes.writer.kube = heedful{w.kube, w.kube.CoreV1(), cancel}
				if err := w.plugin.PreBind(ctx, task, "n1"); !errors.Is(err, context.Canceled) {
					t.Errorf("the step returned %v", err)
				}
				if diff := cmp.Diff([]string{want}, w.written()); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				w.plugin.volumes.writer.kube = w.kube
				w.rollBack(task)
				w.untouched("c", "v")
				w.nothingAssumed()
			})
		})
	}
}

// TestACancelledStepWritesNoMore checks that a cancelled step ends after its current write.
func TestACancelledStepWritesNoMore(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made"), schedtest.UnboundClaim("d", "made"), schedtest.UnboundClaim("e", "made")})
	run(t, nil, objects, func(w *testCluster) {
		task := member("g-0", "c", "d", "e")
		w.mustPlace(task, "n1")
		w.written()
		ctx, cancel := context.WithCancel(w.t.Context())
		w.kube.PrependReactor("update", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			cancel() // the gang fails while the first claim is written
			return false, nil, nil
		})
		if err := w.plugin.PreBind(ctx, task, "n1"); err == nil {
			t.Error("the cancelled step succeeded")
		}
		if wrote := w.written(); len(wrote) != 1 {
			t.Errorf("wrote %v, want only the first claim", wrote)
		}
	})
}

// TestAStepThatIsRolledBackWhileItRunsWritesNoMore: the rollback has already run, so nothing would withdraw further
// writes.
func TestAStepThatIsRolledBackWhileItRunsWritesNoMore(t *testing.T) {
	for _, class := range []string{"local", "made"} {
		t.Run(class, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", class), local("v", "n1")}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				begun := w.plugin.volumes.assumptions.beginPreBind(task.Pod.UID)
				w.rollBack(task)
				w.written()
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
				defer cancel()
				if err := w.plugin.volumes.bind(ctx, task.Pod, begun); !errors.Is(err, errGivenUp) {
					t.Errorf("the step returned %v", err)
				}
				if list := w.written(); len(list) > 0 {
					t.Errorf("wrote %v, want no writes", list)
				}
			})
		})
	}
}

// TestAVolumeThatIsAnothersByNow checks that the step fails at once if the volume was reserved for the claim when its
// pod was placed, and is now reserved for another claim.
func TestAVolumeThatIsAnothersByNow(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		reserve := func(name string, uid types.UID) {
			w.setVolume("v", func(v *v1.PersistentVolume) {
				v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: schedtest.Namespace, Name: name, UID: uid}
			})
		}
		task := member("g-0", "c")
		reserve("c", w.claim("c").UID)
		w.open()
		w.mustPlace(task, "n1")
		reserve("other", "other")
		began := time.Now()
		err := w.preBind(task)()
		if err == nil || err.Error() != `volume "v" is no longer reserved for claim "c" (storage class "local")` || time.Since(began) > time.Minute {
			t.Errorf("after %v the step returned %v", time.Since(began), err)
		}
	})
}
