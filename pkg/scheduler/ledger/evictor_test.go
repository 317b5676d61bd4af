// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestEvictDeletesEvenIfTheStatusWriteFails(t *testing.T) {
	broken := apierrors.NewInternalError(errBroken)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
	tests := map[string]struct {
		before []v1.PodCondition
		// statusErr is the error of the status update. fails are the errors of successive deletions, which are
		// accepted afterwards.
		statusErr error
		fails     []error
		// replaced makes a newer pod take the victim's name.
		replaced  bool
		stays     bool
		deletions int
	}{
		"a pod":                              {deletions: 1},
		"a pod that was explained already":   {before: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "Evict", Message: "Evicted: preempt"}}, deletions: 1},
		"the status cannot be written":       {statusErr: broken, deletions: 1},
		"the deletion fails at first":        {fails: []error{broken, broken}, deletions: 3},
		"the pod is gone":                    {fails: []error{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p0")}, deletions: 1},
		"another pod has its name":           {fails: []error{conflict}, replaced: true, deletions: 1},
		"a conflict for another cause":       {fails: []error{conflict, conflict}, deletions: 3},
		"conflicts that do not end":          {fails: slices.Repeat([]error{conflict}, 10), stays: true, deletions: 6},
		"the deletion is forbidden at first": {fails: []error{forbidden, forbidden}, deletions: 3},
		"the deletion is forbidden":          {fails: slices.Repeat([]error{forbidden}, 10), stays: true, deletions: 6},
		"the deletion is not valid":          {fails: []error{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p0", nil)}, stays: true, deletions: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				victim := pod(0).Node("n").Phase(v1.PodRunning).Obj()
				victim.Status.Conditions = tt.before
				kube, deletions := w.cluster.Kube, 0
				kube.PrependReactor("delete", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					deletions++
					if on := action.(kubetesting.DeleteActionImpl).DeleteOptions.Preconditions; on == nil || on.UID == nil || *on.UID != victim.UID {
						t.Errorf("the deletion has preconditions %v, want the UID of the pod", on)
					}
					if deletions <= len(tt.fails) {
						return true, nil, tt.fails[deletions-1]
					}
					return false, nil, nil
				})
				kube.PrependReactor("patch", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
					return tt.statusErr != nil, nil, tt.statusErr
				})
				w.add(victim)
				if tt.replaced {
					w.cluster.Put(pod(0).UID("new").Obj())
				}
				if err := NewEvictor(kube, w.books, w.reports).Evict(api.NewTaskInfo(victim), "preempt"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tt.deletions, deletions); diff != "" {
					t.Errorf("deletions (-want +got):\n%s", diff)
				}
				if got := w.task("p0").Status == api.Releasing; got == tt.stays {
					t.Errorf("booked as leaving: %v, want %v", got, !tt.stays)
				}
				if tt.stays {
					wantStays(t, w, "p0")
				}
				if _, err := kube.CoreV1().Pods("ns").Get(t.Context(), "p0", metav1.GetOptions{}); !tt.stays && len(tt.fails) != 1 && !apierrors.IsNotFound(err) {
					t.Errorf("the pod is still there (%v)", err)
				}
			})
		})
	}
}

// wantStays checks that the pod's conditions do not say that it is evicted.
func wantStays(t *testing.T, w *harness, name string) {
	t.Helper()
	for _, c := range w.cluster.Pod(name).Status.Conditions {
		if (c.Type == conditions.Evicted || c.Type == v1.DisruptionTarget) && c.Status != v1.ConditionFalse {
			t.Errorf("pod %s stays, and its condition %s has status %s, want False", name, c.Type, c.Status)
		}
	}
}

// preemptor returns the PodGroup of a gang for which pods are evicted.
func preemptor() *api.PodGroup {
	high := &api.PodGroup{}
	high.Name, high.Namespace, high.UID = "high", schedtest.Namespace, "uid-of-high"
	return high
}

// victims adds running pods p0, p1, ... of 0.1 CPU, which are to be evicted for the preemptor.
func (w *harness) victims(n int) (all []Victim) {
	w.t.Helper()
	for i := range n {
		victim := pod(i).Req(schedtest.Resources{"cpu": "100m"}).Node("n").Phase(v1.PodRunning).Obj()
		w.add(victim)
		all = append(all, Victim{Task: api.NewTaskInfo(victim), Reason: "preempt", For: preemptor()})
	}
	return all
}

// refusals returns the events of refused evictions since the last call of Events.Take.
func refusals(w *harness) []string {
	return slices.DeleteFunc(w.cluster.Events.Take(), func(e string) bool { return !strings.Contains(e, "EvictionRefused") })
}

// gone returns which of the pods no longer exist, and checks that the others stay.
func gone(t *testing.T, w *harness, names ...string) (gone []string) {
	t.Helper()
	for _, name := range names {
		if _, err := w.cluster.Kube.CoreV1().Pods(schedtest.Namespace).Get(t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			gone = append(gone, name)
			continue
		}
		if wantStays(t, w, name); w.task(name).Status != api.Running {
			t.Errorf("pod %s stays, and is %s in the books", name, w.task(name).Status)
		}
	}
	return gone
}

// TestEvictionsOfAPlan checks that the API server is asked about protected pods before any other pod is deleted, and that the
// pods that are not evicted yet stay if it refuses one.
func TestEvictionsOfAPlan(t *testing.T) {
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	busy := apierrors.NewTooManyRequests("the server is busy", 0)
	told := "Warning EvictionRefused high: Pod p1 cannot be evicted: " + refusal.Error() + ". The pods that are not evicted yet stay"
	tests := map[string]struct {
		protected []string
		// fails are the errors of successive evictions through the API, which are accepted afterwards.
		fails []error
		other bool // whether the preemptor is in another namespace
		asked []string
		gone  []string
		told  string
	}{
		"no pod is protected":     {gone: []string{"p0", "p1", "p2"}},
		"all are evicted":         {protected: []string{"p1", "p2"}, asked: []string{"p1", "p2"}, gone: []string{"p0", "p1", "p2"}},
		"the first is refused":    {protected: []string{"p1", "p2"}, fails: []error{refusal}, asked: []string{"p1"}, told: told},
		"the second is refused":   {protected: []string{"p2", "p1"}, fails: []error{nil, refusal}, asked: []string{"p2", "p1"}, gone: []string{"p2"}, told: told},
		"the server is busy":      {protected: []string{"p1"}, fails: []error{busy, busy}, asked: []string{"p1", "p1", "p1"}, gone: []string{"p0", "p1", "p2"}},
		"the server stays busy":   {protected: []string{"p1"}, fails: slices.Repeat([]error{busy}, 10), asked: slices.Repeat([]string{"p1"}, 3), told: strings.ReplaceAll(told, refusal.Error(), busy.Error())},
		"for another's namespace": {protected: []string{"p1"}, fails: []error{refusal}, other: true, asked: []string{"p1"}, told: "Warning EvictionRefused high: A pod of another namespace cannot be evicted. The pods that are not evicted yet stay"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				var asked []string
				w.cluster.Kube.PrependReactor("create", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					eviction := action.(kubetesting.CreateActionImpl).Object.(*policyv1.Eviction)
					asked = append(asked, eviction.Name)
					if uid := eviction.DeleteOptions.Preconditions.UID; *uid != w.cluster.Pod(eviction.Name).UID {
						t.Errorf("the eviction of %s has the precondition %s, want the UID of the pod", eviction.Name, *uid)
					}
					if len(asked) <= len(tt.fails) && tt.fails[len(asked)-1] != nil {
						return true, nil, tt.fails[len(asked)-1]
					}
					w.cluster.Remove(w.cluster.Pod(eviction.Name))
					return true, nil, nil
				})
				w.cluster.Kube.PrependReactor("delete", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					if slices.Contains(tt.protected, action.(kubetesting.DeleteAction).GetName()) && len(asked) < 3 {
						t.Errorf("pod %s is deleted without asking", action.(kubetesting.DeleteAction).GetName())
					}
					if len(asked) < len(tt.protected) {
						t.Errorf("a pod is deleted when the API server was asked about %v, of %v", asked, tt.protected)
					}
					return false, nil, nil
				})
				high := preemptor()
				if tt.other {
					high.Namespace = "other"
				}
				all := map[string]Victim{}
				for i := range 3 {
					victim := pod(i).Node("n").Phase(v1.PodRunning).Obj()
					w.add(victim)
					all[victim.Name] = Victim{Task: api.NewTaskInfo(victim), Reason: "preempt", For: high, Protected: slices.Contains(tt.protected, victim.Name)}
				}
				var evictions []Victim
				for _, name := range tt.protected {
					evictions = append(evictions, all[name])
					delete(all, name)
				}
				for _, name := range slices.Sorted(maps.Keys(all)) {
					evictions = append(evictions, all[name])
				}
				w.cluster.Events.Take()
				if err := NewEvictor(w.cluster.Kube, w.books, w.reports).EvictTogether(evictions); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tt.asked, asked); diff != "" {
					t.Errorf("evictions through the API (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.gone, gone(t, w, "p0", "p1", "p2")); diff != "" {
					t.Errorf("evicted pods (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.told, strings.Join(refusals(w), "; ")); diff != "" {
					t.Errorf("events of refusals (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAFailedDeletionStopsItsPlan checks that the pods of a plan whose deletion has not begun stay if another pod of the plan cannot
// be deleted. The gang for which they were to be evicted is notified once.
func TestAFailedDeletionStopsItsPlan(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p1", nil)
	told := "Warning EvictionRefused high: Pod p1 cannot be evicted: " + invalid.Error() + ". The pods that are not evicted yet stay"
	for name, tt := range map[string]struct {
		busy int // of the goroutines that evict pods of the namespace
		// stay are the pods that stay, in any case.
		stay []string
	}{
		"one after the other": {busy: callsPerNamespace - 1, stay: []string{"p1", "p2", "p39"}},
		"many at once":        {stay: []string{"p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				w.cluster.Kube.PrependReactor("delete", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					return action.(kubetesting.DeleteAction).GetName() == "p1", nil, invalid
				})
				all := w.victims(40)
				e, idle := NewEvictor(w.cluster.Kube, w.books, w.reports), make(chan struct{})
				for range tt.busy {
					e.calls.run(schedtest.Namespace, func() { <-idle })
				}
				w.cluster.Events.Take()
				if err := e.EvictTogether(all); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				close(idle)
				for _, v := range all {
					name := v.Task.Name
					_, err := w.cluster.Kube.CoreV1().Pods(schedtest.Namespace).Get(t.Context(), name, metav1.GetOptions{})
					gone, status := apierrors.IsNotFound(err), w.task(name).Status
					if gone && slices.Contains(tt.stay, name) {
						t.Errorf("pod %s was deleted", name)
					}
					if want := map[bool]api.TaskStatus{true: api.Releasing, false: api.Running}[gone]; status != want {
						t.Errorf("pod %s is %s in the books, want %s", name, status, want)
					}
					if !gone {
						wantStays(t, w, name)
					}
				}
				if diff := cmp.Diff([]string{told}, refusals(w)); diff != "" {
					t.Errorf("events of refusals (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAGangIsNotifiedOfOneFailedDeletion checks that the gang gets one event if several pods of a plan cannot be deleted.
func TestAGangIsNotifiedOfOneFailedDeletion(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.cluster.Kube.PrependReactor("delete", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errBroken)
		})
		all := w.victims(3)
		w.cluster.Events.Take()
		if err := NewEvictor(w.cluster.Kube, w.books, w.reports).EvictTogether(all); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for _, v := range all {
			if wantStays(t, w, v.Task.Name); w.task(v.Task.Name).Status != api.Running {
				t.Errorf("pod %s stays, and is %s in the books", v.Task.Name, w.task(v.Task.Name).Status)
			}
		}
		if events := refusals(w); len(events) != 1 {
			t.Errorf("events of refusals: %v, want one", events)
		}
	})
}

// TestAPlanDoesNotWaitForABudgetThatChanges checks how long the other pods of a plan count as soon to be gone while the API server
// asks to wait, because of a PodDisruptionBudget that its owner changes.
func TestAPlanDoesNotWaitForABudgetThatChanges(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.cluster.Kube.PrependReactor("create", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
			time.Sleep(askTimeout) // client-go waits until the context ends
			return true, nil, context.DeadlineExceeded
		})
		var all []Victim
		for i := range 2 {
			victim := pod(i).Node("n").Phase(v1.PodRunning).Obj()
			w.add(victim)
			all = append(all, Victim{Task: api.NewTaskInfo(victim), Reason: "preempt", Protected: i == 0})
		}
		if err := NewEvictor(w.cluster.Kube, w.books, w.reports).EvictTogether(all); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		for _, name := range []string{"p0", "p1"} {
			if got := w.task(name).Status; got != api.Running {
				t.Errorf("pod %s is %s after 15 s, want Running", name, got)
			}
		}
	})
}

// TestAPlanOfAPodThatIsGoneEvictsNone checks that no pod of a plan is evicted if one of them is no longer in the books.
func TestAPlanOfAPodThatIsGoneEvictsNone(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		there, gone := pod(0).Node("n").Phase(v1.PodRunning).Obj(), pod(1).Node("n").Phase(v1.PodRunning).Obj()
		w.add(there)
		err := NewEvictor(w.cluster.Kube, w.books, w.reports).EvictTogether([]Victim{{Task: api.NewTaskInfo(there)}, {Task: api.NewTaskInfo(gone)}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if err == nil || w.task("p0").Status != api.Running {
			t.Errorf("EvictTogether returned %v, and the pod that is there is %s, want an error and Running", err, w.task("p0").Status)
		}
		w.cluster.Pod("p0") // panics if the pod is gone
	})
}
