// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Upstream's device modes are package variables, which its node workers read while a test switches them.

package devices_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// lockOf returns the annotation that locks a node until the device plugin has assigned a pod's devices.
func lockOf(s sharing) string {
	switch s.argument {
	case "deviceshare.VGPUEnable":
		return "hamivgpu"
	case "deviceshare.GPUSharingEnable":
		return "gpu"
	default: // Whole GPUs have no lock, and HAMi locks only while it chooses.
		return ""
	}
}

func TestOnePodAtATimeIsPlacedOnALockedNode(t *testing.T) {
	in(t, true, pending(2), func(t *testing.T, w *harness, s sharing) {
		ssn := w.open()
		defer ssn.Close()
		first, second := vcframework.NewStatement(ssn.Session.Session), vcframework.NewStatement(ssn.Session.Session)
		if err := first.Allocate(task(ssn, "p0"), ssn.Nodes["n"]); err != nil {
			t.Fatal(err)
		}
		err := second.Allocate(task(ssn, "p1"), ssn.Nodes["n"])
		if refused := lockOf(s) != ""; refused != (err != nil) {
			t.Errorf("second pod on the node: %v, want refused %t", err, refused)
		}
		if err := second.UnAllocate(task(ssn, "p1")); err != nil {
			t.Fatal(err)
		}
		first.Discard()
		if err := second.Allocate(task(ssn, "p1"), ssn.Nodes["n"]); err != nil {
			t.Errorf("the node is locked after the trial was dropped: %v", err)
		}
		w.unwritten()
	})
}

func TestNodesAreLockedBeforeTheBind(t *testing.T) {
	in(t, true, pending(1), func(t *testing.T, w *harness, s sharing) {
		steps := w.lockSteps()
		if err := w.Kube().Tracker().Add(s.node().Obj()); err != nil {
			t.Fatal(err)
		}
		if lockOf(s) == "" {
			if len(steps) != 0 {
				t.Errorf("the pod has the steps %v", steps)
			}
			return
		}
		if len(steps) != 1 {
			t.Fatalf("the pod has the steps %v, want one", steps)
		}
		w.unwritten()
		if err := steps[0].PreBind(t.Context(), nil, "n"); err != nil {
			t.Fatal(err)
		}
		if since, err := time.Parse(time.RFC3339, w.node().Annotations[lockOf(s)]); err != nil || time.Since(since) > time.Minute {
			t.Errorf("the node's lock is %q", w.node().Annotations[lockOf(s)])
		}
		for range 2 {
			if err := steps[0].Rollback(t.Context(), nil, "n"); err != nil {
				t.Fatal(err)
			}
			if since, ok := w.node().Annotations[lockOf(s)]; ok {
				t.Errorf("the node is locked since %s after the step was rolled back", since)
			}
		}
	})
}

// lockSteps returns the node-locking steps among the steps that a session commits for pod p0.
func (w *harness) lockSteps() []binding.Step {
	w.t.Helper()
	ssn := w.open()
	defer ssn.Close()
	statement := vcframework.NewStatement(ssn.Session.Session)
	if err := statement.Allocate(task(ssn, "p0"), ssn.Nodes["n"]); err != nil {
		w.t.Fatal(err)
	}
	statement.Commit()
	return slices.DeleteFunc(ssn.Handed()["ns/p0"].Steps, func(step binding.Step) bool { return step.Plugin != "deviceshare" })
}

func (w *harness) node() *v1.Node {
	w.t.Helper()
	object, err := w.Kube().Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", "n")
	if err != nil {
		w.t.Fatal(err)
	}
	return object.(*v1.Node)
}

// locksOfOthers are locks that already exist on a node.
var locksOfOthers = map[string]struct {
	since   func() string
	refused string
}{
	"taken just now": {
		since:   func() string { return time.Now().Add(-time.Minute).Format(time.RFC3339) },
		refused: `node n is locked (annotation hamivgpu: "20`,
	},
	"expired":               {since: func() string { return time.Now().Add(-6 * time.Minute).Format(time.RFC3339) }},
	"of an unreadable time": {since: func() string { return "noon" }, refused: `node n is locked (annotation hamivgpu: "noon")`},
}

// withLocks runs the test with one kind of devices that needs locks, since one represents all.
func withLocks(t *testing.T, test func(t *testing.T, w *harness, s sharing)) {
	t.Helper()
	in(t, true, pending(1), test, "vGPU")
}

func TestSessionSeesLocksOfOthers(t *testing.T) {
	for name, tt := range locksOfOthers {
		t.Run(name, func(t *testing.T) {
			withLocks(t, func(t *testing.T, w *harness, s sharing) {
				if err := w.Cache().AddOrUpdateNode(s.node().Annotation(lockOf(s), tt.since()).Obj()); err != nil {
					t.Fatal(err)
				}
				ssn := w.open()
				defer ssn.Close()
				err := vcframework.NewStatement(ssn.Session.Session).Allocate(task(ssn, "p0"), ssn.Nodes["n"])
				if (err != nil) != (tt.refused != "") {
					t.Errorf("placing the pod on the node: %v, want refused %t", err, tt.refused != "")
				}
			})
		})
	}
}

// TestSessionSeesLocksOnTheirWay checks that sessions see locks that are about to be written: the lock of a pod that
// is being bound may not be on the node yet.
func TestSessionSeesLocksOnTheirWay(t *testing.T) {
	withLocks(t, func(t *testing.T, w *harness, s sharing) {
		w.Cache().AddPod(schedtest.MakePod().Name("r").Group("g").Limit(s.asks).Node("n").Annotation(s.holds, s.has).Obj())
		for status, refused := range map[api.TaskStatus]bool{api.Binding: true, api.Running: false} {
			for _, task := range w.Cache().Nodes["n"].Tasks {
				task.Status = status
			}
			ssn := w.open()
			err := vcframework.NewStatement(ssn.Session.Session).Allocate(task(ssn, "p0"), ssn.Nodes["n"])
			if refused != (err != nil) {
				t.Errorf("placing a pod beside one that is %v: %v, want refused %t", status, err, refused)
			}
			ssn.Close()
		}
	})
}

func TestLockStepMindsLocksOfOthers(t *testing.T) {
	for name, tt := range locksOfOthers {
		t.Run(name, func(t *testing.T) {
			withLocks(t, func(t *testing.T, w *harness, s sharing) {
				step := w.lockSteps()[0] // The session sees no lock yet.
				since := tt.since()
				if err := w.Kube().Tracker().Add(s.node().Annotation(lockOf(s), since).Obj()); err != nil {
					t.Fatal(err)
				}
				err := step.PreBind(t.Context(), nil, "n")
				if tt.refused == "" {
					if err != nil {
						t.Errorf("an expired lock is not taken over: %v", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error is %v, want an error with %q", err, tt.refused)
				}
				if err := step.Rollback(t.Context(), nil, "n"); err != nil {
					t.Fatal(err)
				}
				if got := w.node().Annotations[lockOf(s)]; got != since {
					t.Errorf("the lock of another is %q after the rollback, want %q", got, since)
				}
			})
		})
	}
}

// TestLockThatPassedToAnother checks that a rollback does not remove a lock that passed to another pod. The device
// plugin has released the first lock, and another pod has taken it before the step is rolled back.
func TestLockThatPassedToAnother(t *testing.T) {
	withLocks(t, func(t *testing.T, w *harness, s sharing) {
		step := w.lockSteps()[0]
		if err := w.Kube().Tracker().Add(s.node().Obj()); err != nil {
			t.Fatal(err)
		}
		if err := step.PreBind(t.Context(), nil, "n"); err != nil {
			t.Fatal(err)
		}
		others := time.Now().Add(time.Minute).Format(time.RFC3339)
		locked := s.node().Annotation(lockOf(s), others).Obj()
		if err := w.Kube().Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), locked, "", metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := step.Rollback(t.Context(), nil, "n"); err != nil {
			t.Fatal(err)
		}
		if got := w.node().Annotations[lockOf(s)]; got != others {
			t.Errorf("the lock of another is %q after the rollback, want %q", got, others)
		}
	})
}

func TestLockWhoseWriteFails(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("nodes"), "n", errors.New("changed"))
	tests := map[string]struct {
		err    error
		took   bool
		failed bool
	}{
		"somebody else changed the node": {err: conflict},
		"it did not arrive":              {err: errors.New("timed out"), failed: true},
		"it arrived after all":           {err: errors.New("timed out"), took: true, failed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withLocks(t, func(t *testing.T, w *harness, s sharing) {
				step := w.lockSteps()[0]
				if err := w.Kube().Tracker().Add(s.node().Obj()); err != nil {
					t.Fatal(err)
				}
				writes := 0
				w.Kube().PrependReactor("update", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
					writes++
					if writes > 1 {
						return false, nil, nil
					}
					if tt.took {
						node := action.(clienttesting.UpdateAction).GetObject()
						if err := w.Kube().Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), node, "", metav1.UpdateOptions{}); err != nil {
							t.Error(err)
						}
					}
					return true, nil, tt.err
				})
				if err := step.PreBind(t.Context(), nil, "n"); (err != nil) != tt.failed {
					t.Errorf("error is %v, want failure %t", err, tt.failed)
				}
				if err := step.Rollback(t.Context(), nil, "n"); err != nil {
					t.Fatal(err)
				}
				if since, ok := w.node().Annotations[lockOf(s)]; ok {
					t.Errorf("the node is locked since %s after the step was rolled back", since)
				}
			})
		})
	}
}
