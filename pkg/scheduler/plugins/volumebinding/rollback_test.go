// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRollbackWithdraws: the rollback withdraws writes that no controller has used, even after a timeout of the step,
// and releases the volumes. A second rollback does nothing.
func TestRollbackWithdraws(t *testing.T) {
	objects := with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1"), local("v2", "n2")})
	run(t, map[string]any{bindTimeoutArgument: 7}, objects, func(w *testCluster) {
		task := member("g-0", "c", "d")
		w.mustPlace(task, "n1")
		start := time.Now()
		end := w.preBind(task)
		if w.volume("v").Spec.ClaimRef == nil || w.claim("d").Annotations[volume.AnnSelectedNode] != "n1" {
			t.Fatal("the step wrote nothing")
		}
		err := end()
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("the step took %v, want 7s", took)
		}
		want := `claim "c" (storage class "local"), claim "d" (storage class "made"): no volume was bound within 7s`
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the step failed with %v, want %s", err, want)
		}
		w.rollBack(task)
		w.untouched("c", "v")
		w.untouched("d", "")
		w.nothingAssumed()
		w.written()
		w.rollBack(task)
		if list := w.written(); len(list) > 0 {
			t.Errorf("the second rollback wrote %v", list)
		}
		w.mustPlace(task, "n2")
	})
}

// TestRollbackUnbegun: the rollback of a member whose step never ran releases its volumes and writes nothing.
func TestRollbackUnbegun(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		w.rollBack(task)
		w.nothingAssumed()
		if list := w.written(); len(list) > 0 {
			t.Errorf("wrote %v, want no writes", list)
		}
	})
}

// TestRollbackLeavesWhatWasTakenUp checks that the rollback does not change what the volume controller, a provisioner
// or a user did meanwhile.
func TestRollbackLeavesWhatWasTakenUp(t *testing.T) {
	objects := func() []runtime.Object {
		return with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1")})
	}
	freed := func(w *testCluster) {
		if ref := w.volume("v").Spec.ClaimRef; ref != nil {
			w.t.Errorf("the volume is reserved for a deleted claim: %v", ref)
		}
	}
	kept := func(w *testCluster) {
		if w.volume("v").Spec.ClaimRef == nil {
			w.t.Error("a volume that may have data was made available")
		}
		if events := w.events.Take(); len(events) > 0 {
			w.t.Errorf("events %q", events)
		}
	}
	released := func(w *testCluster) {
		want := []string{"Warning VolumeReleased v: claim " + schedtest.Namespace + "/c was deleted while this volume was reserved for it. The volume stays Released, " +
			"because it may hold data of the claim. To make it available, check its data and remove spec.claimRef"}
		if diff := cmp.Diff(want, w.events.Take()); diff != "" {
			w.t.Errorf("events (-want +got):\n%s", diff)
		}
		kept(w)
	}
	cases := map[string]struct {
		meanwhile func(w *testCluster)
		check     func(w *testCluster)
	}{
		"a volume was made and bound": {
			meanwhile: func(w *testCluster) { w.provision("d") },
			check: func(w *testCluster) {
				if !isBound(w.claim("d")) || w.volume("made-for-d").Spec.ClaimRef == nil {
					w.t.Error("the new volume is no longer bound to the claim")
				}
				if w.claim("d").Annotations[volume.AnnSelectedNode] != "n1" {
					w.t.Error("a bound claim was written")
				}
				w.open()
				if w.fits(member("g-1", "d"), "n2") == "" {
					w.t.Error("the claim's next pod fits a node that does not reach its volume")
				}
				w.untouched("c", "v")
			},
		},
		"the volume controller has begun": {
			meanwhile: func(w *testCluster) { w.phase("v", v1.VolumeBound) },
			check: func(w *testCluster) {
				if ref := w.volume("v").Spec.ClaimRef; ref == nil || ref.Name != "c" {
					w.t.Errorf("the volume of claim c is reserved for %v", ref)
				}
			},
		},
		"the claim knows its volume": {
			meanwhile: func(w *testCluster) { w.change("c", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }) },
			check: func(w *testCluster) {
				if w.volume("v").Spec.ClaimRef == nil {
					w.t.Error("the volume is no longer reserved for its claim")
				}
			},
		},
		"the volume was given to another claim": {
			meanwhile: func(w *testCluster) {
				v := w.volume("v")
				v.Spec.ClaimRef = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: "other", UID: "other"}
				if _, err := w.kube.CoreV1().PersistentVolumes().Update(w.t.Context(), v, metav1.UpdateOptions{}); err != nil {
					w.t.Fatal(err)
				}
			},
			check: func(w *testCluster) {
				if ref := w.volume("v").Spec.ClaimRef; ref == nil || ref.Name != "other" {
					w.t.Errorf("the volume of another claim is reserved for %v", ref)
				}
			},
		},
		"another scheduler reserved the volume for the claim": {
			meanwhile: func(w *testCluster) {
				v := w.volume("v")
				delete(v.Annotations, SchedulerAnnotation)
				if _, err := w.kube.CoreV1().PersistentVolumes().Update(w.t.Context(), v, metav1.UpdateOptions{}); err != nil {
					w.t.Fatal(err)
				}
				w.change("d", func(c *v1.PersistentVolumeClaim) { c.Annotations[SchedulerAnnotation] = "other" })
			},
			check: func(w *testCluster) {
				if w.volume("v").Spec.ClaimRef == nil || w.claim("d").Annotations[volume.AnnSelectedNode] != "n1" {
					w.t.Error("the writes of another scheduler were withdrawn")
				}
			},
		},
		"another node was selected": {
			meanwhile: func(w *testCluster) {
				w.change("d", func(c *v1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = "n2" })
			},
			check: func(w *testCluster) {
				if selected := w.claim("d").Annotations[volume.AnnSelectedNode]; selected != "n2" {
					w.t.Errorf("node %q is selected, want n2, which another client selected", selected)
				}
			},
		},
		"the claim was deleted": {
			meanwhile: func(w *testCluster) { w.remove("c") },
			check:     freed,
		},
		"the claim was deleted, and the volume controller saw it": {
			meanwhile: func(w *testCluster) { w.remove("c"); w.phase("v", v1.VolumeReleased) },
			check:     released,
		},
		"the claim was recreated, and the volume controller saw it": {
			meanwhile: func(w *testCluster) {
				w.remove("c")
				recreated := schedtest.UnboundClaim("c", "local")
				recreated.UID = "another"
				if _, err := w.kube.CoreV1().PersistentVolumeClaims(recreated.Namespace).Create(w.t.Context(), recreated, metav1.CreateOptions{}); err != nil {
					w.t.Fatal(err)
				}
				w.phase("v", v1.VolumeReleased)
			},
			check: released,
		},
		"the claim was deleted after its volume was bound": {
			meanwhile: func(w *testCluster) { w.phase("v", v1.VolumeBound); w.remove("c"); w.phase("v", v1.VolumeReleased) },
			check:     released,
		},
		"the claim was deleted some time after its volume was bound": {
			meanwhile: func(w *testCluster) {
				w.setVolume("v", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} })
				w.phase("v", v1.VolumeBound)
				w.remove("c")
				w.phase("v", v1.VolumeReleased)
			},
			check: released,
		},
		"both were restored from a copy": {
			meanwhile: func(w *testCluster) {
				d, v := w.claim("d"), w.volume("v")
				w.remove("d")
				w.removeVolume("v")
				d.UID, v.UID = "restored", "restored"
				if _, err := w.kube.CoreV1().PersistentVolumeClaims(d.Namespace).Create(w.t.Context(), d, metav1.CreateOptions{}); err != nil {
					w.t.Fatal(err)
				}
				if _, err := w.kube.CoreV1().PersistentVolumes().Create(w.t.Context(), v, metav1.CreateOptions{}); err != nil {
					w.t.Fatal(err)
				}
			},
			check: func(w *testCluster) {
				if w.claim("d").Annotations[volume.AnnSelectedNode] != "n1" || w.volume("v").Spec.ClaimRef == nil {
					w.t.Error("a claim or volume of the same name, but another UID, was changed")
				}
			},
		},
		"the volume was released, and its claim is there": {
			meanwhile: func(w *testCluster) { w.phase("v", v1.VolumeReleased) },
			check:     kept,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]any{bindTimeoutArgument: 3}, objects(), func(w *testCluster) {
				task := member("g-0", "c", "d")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				tc.meanwhile(w)
				if err := end(); err == nil {
					t.Fatal("the step succeeded, want an error")
				}
				w.rollBack(task)
				w.nothingAssumed()
				tc.check(w)
			})
		})
	}
}

// TestErrorOfARollbackOfManyClaimsIsShort: the error is short, because it is reported again at each retry.
func TestErrorOfARollbackOfManyClaimsIsShort(t *testing.T) {
	for claims, want := range map[string]string{
		"c":     `rolling back claim "c": the API server is away`,
		"c d e": `rolling back claim "c": the API server is away (and 2 more claims)`,
	} {
		t.Run(claims, func(t *testing.T) {
			names := strings.Fields(claims)
			objects := with(someNodes("n1"))
			for _, name := range names {
				objects = append(objects, schedtest.UnboundClaim(name, "made"))
			}
			run(t, map[string]any{bindTimeoutArgument: 1}, objects, func(w *testCluster) {
				task := member("g-0", names...)
				w.mustPlace(task, "n1")
				if w.preBind(task)() == nil {
					t.Fatal("the step succeeded, want an error")
				}
				w.kube.PrependReactor("get", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("the API server is away")
				})
				if err := w.plugin.Rollback(w.t.Context(), task, "n1"); err == nil || err.Error() != want {
					t.Errorf("the rollback returned %v, want %s", err, want)
				}
			})
		})
	}
}

// conflictOnce makes the next update of this resource fail with a conflict, because another client was faster.
func (w *testCluster) conflictOnce(resource string) {
	faster := true
	w.kube.PrependReactor("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !faster {
			return false, nil, nil
		}
		faster = false
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "", errors.New("another version"))
	})
}
