// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// untouched fails the test if a node is selected for the claim, if the volume is reserved, or if either has annotations
// of the scheduler.
func (w *testCluster) untouched(claim, name string) {
	w.t.Helper()
	c := w.claim(claim)
	if c.Annotations[volume.AnnSelectedNode] != "" || c.Annotations[SchedulerAnnotation] != "" {
		w.t.Errorf("claim %s has annotations %v", claim, c.Annotations)
	}
	if name == "" {
		return
	}
	v := w.volume(name)
	if v.Spec.ClaimRef != nil || len(v.Annotations) > 0 {
		w.t.Errorf("volume %s is reserved for %v, with annotations %v", name, v.Spec.ClaimRef, v.Annotations)
	}
}

// remove deletes the claim.
func (w *testCluster) remove(claim string) {
	w.t.Helper()
	if err := w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Delete(w.t.Context(), claim, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestBound: the step writes the assumed volumes, and ends when the PV controller or the provisioner has bound them. If
// another member fails later, the rollback changes nothing.
func TestBound(t *testing.T) {
	cases := map[string]struct {
		class   string
		volumes []runtime.Object
		writes  []string
		bind    func(w *testCluster)
	}{
		"a local volume": {
			class: "local", volumes: []runtime.Object{local("v", "n1")}, writes: []string{"persistentvolumes v"},
			bind: func(w *testCluster) { w.bind("c", "v") },
		},
		"a volume that is made": {
			class: "made", writes: []string{"persistentvolumeclaims c"},
			bind: func(w *testCluster) { w.provision("c") },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), tc.volumes, []runtime.Object{schedtest.UnboundClaim("c", tc.class)}), func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				w.written()
				end := w.preBind(task)
				if diff := cmp.Diff(tc.writes, w.written()); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				began := time.Now()
				tc.bind(w)
				if err := end(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("the step ended %v after its claim was bound", took)
				}
				w.nothingAssumed()
				if again := w.preBind(task)(); again != nil {
					t.Errorf("the repeated step returned %v", again)
				}
				before := w.claim("c")
				w.rollBack(task)
				if diff := cmp.Diff(before, w.claim("c")); diff != "" {
					t.Errorf("the rollback changed a bound claim:\n%s", diff)
				}
			})
		})
	}
}

// TestPodsWithoutClaims checks that the step and the rollback of a pod without claims do nothing.
func TestPodsWithoutClaims(t *testing.T) {
	run(t, nil, with(someNodes("n1")), func(w *testCluster) {
		task := member("g-0")
		w.mustPlace(task, "n1")
		if err := w.preBind(task)(); err != nil {
			t.Error(err)
		}
		w.rollBack(task)
	})
}

// TestNoPodIsBoundWithoutVolumes checks that the step fails if no volumes are reserved for the pod on this node.
func TestNoPodIsBoundWithoutVolumes(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		task := member("g-0", "c")
		task.NodeName = "n1"
		if err := w.preBind(task)(); !errors.Is(err, errReserved) {
			t.Errorf("without a reservation the step returned %v", err)
		}
		w.mustPlace(task, "n1")
		task.NodeName = "n2"
		if err := w.preBind(task)(); !errors.Is(err, errReserved) {
			t.Errorf("on another node the step returned %v", err)
		}
	})
}

// TestVolumeReservedByAUser checks that the rollback leaves the volume reserved for the claim of that name.
func TestVolumeReservedByAUser(t *testing.T) {
	v := local("v", "n1")
	v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: schedtest.Namespace, Name: "c"}
	run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), v}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		if err := w.preBind(task)(); err == nil {
			t.Fatal("the step succeeded, want an error")
		}
		w.rollBack(task)
		if ref := w.volume("v").Spec.ClaimRef; ref == nil || ref.Name != "c" || ref.UID != "" {
			t.Errorf("the volume is reserved for %v", ref)
		}
	})
}

// TestUnclearAnswers: a write whose answer was lost may have succeeded, so it is withdrawn like any other. A rollback
// that fails is repeated.
func TestUnclearAnswers(t *testing.T) {
	for class, resource := range map[string]string{"made": "persistentvolumeclaims", "local": "persistentvolumes"} {
		t.Run(resource, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("d", class), local("v", "n1")}), func(w *testCluster) {
				task := member("g-0", "d")
				w.mustPlace(task, "n1")
				away := true
				w.loseAnswer(resource)
				w.kube.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					return away, nil, errors.New("the API server is away")
				})
				if err := w.preBind(task)(); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("the step returned %v", err)
				}
				if err := w.plugin.Rollback(w.t.Context(), task, "n1"); err == nil {
					t.Error("the rollback succeeded without an API server")
				}
				if w.plugin.volumes.assumptions.of(task.Pod.UID) == nil {
					t.Error("after the failed rollback the pod holds no volumes")
				}
				w.open()
				if err := w.place(member("g-1", "d"), "n1"); err == nil || !strings.HasSuffix(err.Error(), "an earlier reservation of the claim is being rolled back") {
					t.Errorf("the placement of another pod with the claim returned %v", err)
				}
				away = false
				w.conflictOnce(resource)
				w.rollBack(task)
				w.untouched("d", "v")
				w.nothingAssumed()
			})
		})
	}
}

// TestAClaimRecreatedWhileItsNameIsReserved checks that a recreated claim is reserved only after the former claim was
// released.
func TestAClaimRecreatedWhileItsNameIsReserved(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		former := member("g-0", "c")
		w.mustPlace(former, "n1")
		end := w.preBind(former)
		w.remake("c")
		w.open()
		if err := w.place(member("g-1", "c"), "n1"); err == nil || !strings.HasSuffix(err.Error(), "an earlier reservation of the claim is being rolled back") {
			t.Errorf("the placement of a pod with the new claim returned %v", err)
		}
		if end() == nil {
			t.Error("the step succeeded, want an error")
		}
		w.rollBack(former)
		w.nothingAssumed()
		w.mustPlace(member("g-1", "c"), "n1")
	})
}

// loseAnswer makes the next update of this resource succeed, but loses the answer.
func (w *testCluster) loseAnswer(resource string) {
	lost := true
	w.kube.PrependReactor("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !lost {
			return false, nil, nil
		}
		lost = false
		if _, _, err := w.update(action); err != nil {
			w.t.Error(err)
		}
		return true, nil, context.DeadlineExceeded
	})
}

// TestASharedClaimIsWrittenOnce: members that share a claim wait for one write. It is not withdrawn while one of them
// needs it.
func TestASharedClaimIsWrittenOnce(t *testing.T) {
	for _, class := range []string{"local", "made"} {
		t.Run(class, func(t *testing.T) {
			objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", class), local("v", "n1")})
			run(t, map[string]any{bindTimeoutArgument: 60}, objects, func(w *testCluster) {
				first, second, third := member("g-0", "c"), member("g-1", "c"), member("g-2", "c")
				w.mustPlace(first, "n1")
				w.mustPlace(second, "n1")
				w.mustPlace(third, "n1")
				w.written()
				ends := []func() error{w.preBind(first), w.preBind(second)}
				if list := w.written(); len(list) != 1 {
					t.Errorf("wrote %v, want one write", list)
				}
				w.rollBack(third)
				if list := w.written(); len(list) != 0 {
					t.Errorf("the rollback of one member wrote %v, although others need the claim", list)
				}
				if class == "made" {
					w.provision("c")
				} else {
					w.bind("c", "v")
				}
				for _, end := range ends {
					if err := end(); err != nil {
						t.Error(err)
					}
				}
				w.nothingAssumed()
			})
		})
	}
}

// TestASharedClaimIsWithdrawnByTheLast: the write of a shared claim is withdrawn when the last member whose step has
// begun is rolled back.
func TestASharedClaimIsWithdrawnByTheLast(t *testing.T) {
	run(t, map[string]any{bindTimeoutArgument: 2}, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		first, second := member("g-0", "c"), member("g-1", "c")
		w.mustPlace(first, "n1")
		w.mustPlace(second, "n1")
		for _, end := range []func() error{w.preBind(first), w.preBind(second)} {
			if err := end(); err == nil {
				t.Fatal("the step succeeded, want an error")
			}
		}
		w.rollBack(first)
		if w.claim("c").Annotations[volume.AnnSelectedNode] != "n1" {
			t.Error("the claim was withdrawn although the second member needs it")
		}
		w.rollBack(second)
		w.untouched("c", "")
		w.nothingAssumed()
	})
}

// TestProvisionerAsksToReschedule: the provisioner removes the selected node. The step fails at once, and the claim may
// be reserved on another node.
func TestProvisionerAsksToReschedule(t *testing.T) {
	run(t, nil, with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		end := w.preBind(task)
		w.change("c", func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) })
		err := end()
		if err == nil || err.Error() != `provisioning failed for claim "c" (storage class "made"): node n1 is no longer selected for it; see the events of the claim` {
			t.Errorf("the step returned %v", err)
		}
		w.rollBack(task)
		w.mustPlace(task, "n2")
	})
}

// TestCutOff checks that the step ends with its context and returns the cause.
func TestCutOff(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		ctx, cancel := context.WithCancelCause(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- w.plugin.PreBind(ctx, task, "n1") }()
		synctest.Wait()
		gone := errors.New("the gang fell below its minimum")
		cancel(gone)
		if err := <-done; !errors.Is(err, gone) {
			t.Errorf("the step returned %v", err)
		}
	})
}
