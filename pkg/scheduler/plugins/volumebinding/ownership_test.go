// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// withData returns a volume that was bound and released. An administrator has since reserved it for the next claim of
// that name, and the volume controller's annotation still exists.
func withData(claim string) *v1.PersistentVolume {
	v := local("v", "n1")
	v.Annotations = map[string]string{volume.AnnBoundByController: "yes"}
	v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: schedtest.Namespace, Name: claim}
	return v
}

// TestAVolumeWithDataStaysReserved: a volume with data that an administrator reserved for a claim by name stays
// reserved for that name when the pod is not bound or the claim is deleted. Otherwise another claim would get the data.
func TestAVolumeWithDataStaysReserved(t *testing.T) {
	former := options.ServerOpts
	defer func() { options.ServerOpts = former }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	cases := map[string]func(w *testCluster, undo func()){
		"its pod is not bound":                   func(_ *testCluster, undo func()) { undo() },
		"its pod is not bound, after a crash":    func(w *testCluster, _ func()) { w.recover() },
		"its claim is deleted":                   func(w *testCluster, undo func()) { w.remove("c"); undo() },
		"its claim is deleted, and that is seen": func(w *testCluster, undo func()) { w.remove("c"); w.phase("v", v1.VolumeReleased); undo() },
	}
	for name, then := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), withData("c")}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				if w.volume("v").Spec.ClaimRef.UID == "" {
					t.Fatal("the step wrote nothing")
				}
				then(w, func() {
					if end() == nil {
						t.Fatal("the step succeeded, want an error")
					}
					w.rollBack(task)
				})
				v := w.volume("v")
				if ref := v.Spec.ClaimRef; ref == nil || ref.Name != "c" || ref.UID != "" && v.Status.Phase != v1.VolumeReleased {
					t.Errorf("the volume is %s and reserved for %v", v.Status.Phase, ref)
				}
			})
		})
	}
}

func (w *testCluster) recover() {
	w.t.Helper()
	if err := w.plugin.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestAReleasedVolumeIsLeft: the rollback does not make a released volume available, because it may have data of the
// deleted claim. The reclaim policy may already be deleting the volume, which would destroy the next claim's data. For
// policy Retain an event notifies the administrator.
//
// In one case the volume controller has not released the volume yet.
func TestAReleasedVolumeIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		policy   v1.PersistentVolumeReclaimPolicy
		phase    v1.PersistentVolumePhase
		reported bool
	}{
		"retained":            {v1.PersistentVolumeReclaimRetain, v1.VolumeReleased, true},
		"retained, and bound": {v1.PersistentVolumeReclaimRetain, v1.VolumeBound, true},
		"deleted":             {v1.PersistentVolumeReclaimDelete, v1.VolumeReleased, false},
		"recycled":            {v1.PersistentVolumeReclaimRecycle, v1.VolumeReleased, false},
		"no policy":           {"", v1.VolumeReleased, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := local("v", "n1")
			v.Spec.PersistentVolumeReclaimPolicy = c.policy
			run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), v}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				w.remove("c")
				w.phase("v", c.phase)
				if end() == nil {
					t.Fatal("the step succeeded, want an error")
				}
				w.rollBack(task)
				w.nothingAssumed()
				if w.volume("v").Spec.ClaimRef == nil {
					t.Error("the released volume was made available")
				}
				if events := w.events.Take(); len(events) > 0 != c.reported {
					t.Errorf("the events are %q, want one: %v", events, c.reported)
				}
			})
		})
	}
}

// TestAVolumeThatWasBoundWhenItWasReserved checks that the rollback does not change a volume that has data.
func TestAVolumeThatWasBoundWhenItWasReserved(t *testing.T) {
	for _, phase := range []v1.PersistentVolumePhase{v1.VolumeReleased, v1.VolumeBound, v1.VolumeFailed} {
		t.Run(string(phase), func(t *testing.T) {
			v := withData("c")
			delete(v.Annotations, volume.AnnBoundByController)
			v.Status.Phase = phase // the volume controller has not seen the administrator's change yet
			run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), v}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				w.remove("c")
				if phase != v1.VolumeReleased {
					w.phase("v", v1.VolumeReleased)
				}
				if end() == nil {
					t.Fatal("the step succeeded, want an error")
				}
				before, began := w.volume("v"), time.Now()
				w.rollBack(task)
				w.nothingAssumed()
				if diff := cmp.Diff(before, w.volume("v")); diff != "" {
					t.Errorf("the volume was changed:\n%s", diff)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("the rollback took %v, want no wait", took)
				}
			})
		})
	}
}

// TestUnclearReservations: the answer to the first write of a volume was lost, and the volume was bound meanwhile. It
// counts as bound, even if another member writes it again later.
func TestUnclearReservations(t *testing.T) {
	run(t, map[string]any{bindTimeoutArgument: 5}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		first, second := member("g-0", "c"), member("g-1", "c")
		w.mustPlace(first, "n1")
		w.loseAnswer("persistentvolumes")
		if w.preBind(first)() == nil {
			t.Fatal("the first step succeeded")
		}
		w.phase("v", v1.VolumeBound)
		w.open()
		w.mustPlace(second, "n1")
		end := w.preBind(second)
		w.remove("c")
		w.phase("v", v1.VolumeReleased)
		if end() == nil {
			t.Fatal("the second step succeeded")
		}
		w.rollBack(first)
		w.rollBack(second)
		w.nothingAssumed()
		if w.volume("v").Spec.ClaimRef == nil {
			t.Error("a volume that was bound was made available")
		}
	})
}

// TestAVolumeThatIsTheClaimsAlready: a volume that a provisioner created for the claim is not written, and the rollback
// withdraws nothing. Without the claim's UID, the volume would not be deleted together with the claim.
func TestAVolumeThatIsTheClaimsAlready(t *testing.T) {
	made := schedtest.FreeVolume("made", "made", "n1")
	claim := schedtest.UnboundClaim("c", "made")
	made.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: provisioner}
	made.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1", "n2"), []runtime.Object{claim, made}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		w.written()
		if w.preBind(task)() == nil {
			t.Fatal("the step succeeded")
		}
		w.rollBack(task)
		w.nothingAssumed()
		if list := w.written(); len(list) > 0 {
			t.Errorf("wrote %v, want no writes", list)
		}
		w.mustPlace(task, "n1")
		end := w.preBind(task)
		w.bind("c", "made")
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestAMarkOfAnEarlierClaim: a volume that this scheduler once reserved, and that another client has since reserved for
// another claim, belongs to that client.
func TestAMarkOfAnEarlierClaim(t *testing.T) {
	former := options.ServerOpts
	defer func() { options.ServerOpts = former }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "local"), local("v", "n1")})
	run(t, nil, objects, func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		end := w.preBind(task)
		w.bind("c", "v")
		if err := end(); err != nil {
			t.Fatal(err)
		}
		w.remove("c")
		d := w.claim("d")
		w.setVolume("v", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: d.Namespace, Name: d.Name, UID: d.UID}
			v.Status.Phase = v1.VolumeAvailable
		})
		w.recover()
		if ref := w.volume("v").Spec.ClaimRef; ref == nil || ref.UID != d.UID {
			t.Errorf("the volume that another client reserved for claim d is reserved for %v", ref)
		}
	})
}

// TestASharedClaimDoesNotTakeAVolumeFromAnother: a member holds a volume for its claim but has not written it, and
// another client gives the volume to another claim. The next member must find another volume or wait: a write with the
// current version would give it the other claim's data.
func TestASharedClaimDoesNotTakeAVolumeFromAnother(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")})
	run(t, map[string]any{bindTimeoutArgument: 1}, objects, func(w *testCluster) {
		first, second := member("g-0", "c"), member("g-1", "c")
		w.mustPlace(first, "n1")
		w.setVolume("v", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "other", Name: "theirs", UID: "theirs"}
			v.Status.Phase = v1.VolumeBound
		})
		w.open()
		if refused := w.fits(second, "n1"); refused == "" {
			t.Error("the filter accepts the second member with a volume of another claim")
		}
		if err := w.place(second, "n1"); err == nil {
			t.Error("Reserve gives a volume of another claim to the second member")
			_ = w.preBind(second)()
		} else {
			w.take(second)
		}
		if err := w.preBind(first)(); err == nil {
			t.Error("the first step succeeded")
		}
		w.rollBack(first)
		w.nothingAssumed()
		if ref := w.volume("v").Spec.ClaimRef; ref == nil || ref.Name != "theirs" {
			t.Errorf("the other claim's volume is reserved for %v", ref)
		}
	})
}

// TestASharedClaimIsNotMadeElsewhere: another scheduler has selected a node for a claim that a member holds for another
// node. The next member does not change that.
func TestASharedClaimIsNotMadeElsewhere(t *testing.T) {
	run(t, nil, with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		w.mustPlace(member("g-0", "c"), "n1")
		w.change("c", func(c *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n2")
		})
		w.open()
		want := `node(s) other than n2, which is selected for claim "c" (storage class "made")`
		if got := w.fits(member("g-1", "c"), "n1"); got != want {
			t.Errorf("on n1: %q\nwant  %q", got, want)
		}
	})
}
