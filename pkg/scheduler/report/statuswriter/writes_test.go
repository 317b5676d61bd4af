// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

func phase(p scheduling.PodGroupPhase) func(*scheduling.PodGroupStatus) {
	return func(status *scheduling.PodGroupStatus) { status.Phase = p }
}

func running(n int32) func(*scheduling.PodGroupStatus) {
	return func(status *scheduling.PodGroupStatus) { status.Running = n }
}

func TestWhenPodGroupsAreWritten(t *testing.T) {
	once := []string{"patch podgroups g"}
	tests := map[string]struct {
		do func(w *testWriter)
		// soon has the writes that are made at once, and later the writes that are made within twice the time Settle.
		soon, later []string
		phase       v1beta1.PodGroupPhase
		running     int32
	}{
		"a phase is written at once":         {do: func(w *testWriter) { w.desire(phase(scheduling.PodGroupRunning)) }, soon: once, phase: v1beta1.PodGroupRunning},
		"counters are written a while later": {do: func(w *testWriter) { w.desire(running(1)) }, later: once, phase: v1beta1.PodGroupInqueue, running: 1},
		"the newest counters win": {do: func(w *testWriter) {
			w.desire(running(1))
			w.desire(running(2))
			w.desire(running(3))
		}, later: once, phase: v1beta1.PodGroupInqueue, running: 3},
		"a phase takes waiting counters along": {do: func(w *testWriter) {
			w.desire(running(2))
			w.desire(phase(scheduling.PodGroupRunning))
		}, soon: once, phase: v1beta1.PodGroupRunning, running: 2},
		"what is so already is not written": {do: func(w *testWriter) { w.desire(func(*scheduling.PodGroupStatus) {}) }, phase: v1beta1.PodGroupInqueue},
		"the same status again is not written again": {do: func(w *testWriter) {
			w.desire(phase(scheduling.PodGroupRunning))
			w.desire(phase(scheduling.PodGroupRunning))
		}, soon: once, phase: v1beta1.PodGroupRunning},
		"a condition that differs in its time only is not written again": {do: func(w *testWriter) {
			for range 2 {
				w.desire(unschedulable("R", "m"))
				w.deliver(w.cluster.PodGroup("g"))
				time.Sleep(time.Millisecond)
			}
		}, soon: once, phase: v1beta1.PodGroupInqueue},
		"a conflict is tried again": {do: func(w *testWriter) {
			conflicts := 1
			w.cluster.Volcano.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
				conflicts--
				return conflicts >= 0, nil, apierrors.NewConflict(podGroupResource, "g", errBroken)
			})
			w.desire(phase(scheduling.PodGroupRunning))
		}, soon: once, later: once, phase: v1beta1.PodGroupRunning},
		"a change that the watch has not shown is not overwritten": {do: func(w *testWriter) {
			pg := w.cluster.PodGroup("g")
			pg.Spec.MinMember = 7
			pg = w.cluster.Put(pg).(*v1beta1.PodGroup)
			w.desire(phase(scheduling.PodGroupRunning))
			if w.cluster.PodGroup("g").Spec.MinMember != 7 {
				w.t.Error("a change by somebody else was overwritten")
			}
			w.deliver(pg)
		}, soon: once, later: once, phase: v1beta1.PodGroupRunning},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				w.cluster.Writes()
				tt.do(w)
				if diff := cmp.Diff(tt.soon, w.cluster.Writes()); diff != "" {
					t.Errorf("writes at once (-want +got):\n%s", diff)
				}
				time.Sleep(2 * Settle)
				synctest.Wait()
				if diff := cmp.Diff(tt.later, w.cluster.Writes()); diff != "" {
					t.Errorf("writes later (-want +got):\n%s", diff)
				}
				status := w.cluster.PodGroup("g").Status
				if status.Phase != tt.phase || status.Running != tt.running {
					t.Errorf("status is %s with %d running, want %s with %d", status.Phase, status.Running, tt.phase, tt.running)
				}
			})
		})
	}
}

// TestSnapshotShowsDecidedStatuses checks that a snapshot shows decided statuses: between a decision and the watch
// event for it, no session repeats the decision.
func TestSnapshotShowsDecidedStatuses(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.desire(running(1))
		shown := func() int32 { return w.podGroup().Status.Running }
		if got := shown(); got != 1 {
			t.Errorf("%d are running in the snapshot before the write, want 1", got)
		}
		time.Sleep(2 * Settle)
		synctest.Wait()
		if got := shown(); got != 1 {
			t.Errorf("%d are running in the snapshot between the write and the watch, want 1", got)
		}
		pg := w.cluster.PodGroup("g")
		w.deliver(pg)
		if got := shown(); got != 1 || len(w.podGroups) != 0 {
			t.Errorf("%d are running in the snapshot after the watch, and %d statuses are kept, want 1 and none", got, len(w.podGroups))
		}
		w.add(schedtest.MakePodGroup().Name("g").Obj()) // Another client resets it.
		if got := shown(); got != 0 {
			t.Errorf("%d are running in the snapshot after somebody else's write, want 0", got)
		}
	})
}

// TestAWriteWaitsForTheWatchToShowTheLastOne checks that a write waits until the watch shows the previous write. While
// the API server's events are seconds late, a patch of the version in the watch would conflict again and again. The new
// status is written even if it equals the old status that the watch still shows.
func TestAWriteWaitsForTheWatchToShowTheLastOne(t *testing.T) {
	cases := map[string]struct {
		next  scheduling.PodGroupPhase
		write []string
	}{
		"a new status":               {next: scheduling.PodGroupUnknown, write: []string{"patch podgroups g"}},
		"the status from before":     {next: scheduling.PodGroupInqueue, write: []string{"patch podgroups g"}},
		"the status of the last one": {next: scheduling.PodGroupRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				w.desire(phase(scheduling.PodGroupRunning))
				w.cluster.Writes()
				w.desire(phase(tc.next))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := w.cluster.Writes(); len(got) > 0 {
					t.Errorf("writes before the watch shows the last one: %v", got)
				}
				w.deliver(w.cluster.PodGroup("g"))
				time.Sleep(unseenPoll)
				synctest.Wait()
				if diff := cmp.Diff(tc.write, w.cluster.Writes()); diff != "" {
					t.Errorf("writes after it (-want +got):\n%s", diff)
				}
				if got := w.cluster.PodGroup("g").Status.Phase; string(got) != string(tc.next) {
					t.Errorf("phase is %s, want %s", got, tc.next)
				}
			})
		})
	}
}

// TestAStatusIsWrittenThoughTheWatchDoesNotShowTheLastOne checks that a status is written even if the watch never shows
// the previous write. After etcd was restored from a backup, resource versions are lower than before.
func TestAStatusIsWrittenThoughTheWatchDoesNotShowTheLastOne(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.desire(phase(scheduling.PodGroupRunning))
		w.cluster.Writes()
		w.desire(phase(scheduling.PodGroupUnknown))
		time.Sleep(2 * unseenLimit)
		synctest.Wait()
		if len(w.cluster.Writes()) == 0 {
			t.Errorf("nothing is written in %s", 2*unseenLimit)
		}
	})
}

// TestADecisionGivesWayToAnotherWriter checks that a delayed status is not written if another client writes the status
// first. It would overwrite a change that it did not take into account.
func TestADecisionGivesWayToAnotherWriter(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.desire(phase(scheduling.PodGroupRunning))
		time.Sleep(2 * Settle)
		synctest.Wait()
		w.deliver(w.cluster.PodGroup("g"))
		w.desire(running(1))
		foreign := w.cluster.PodGroup("g").DeepCopy()
		foreign.Status.Phase = v1beta1.PodGroupPending
		w.add(foreign)
		time.Sleep(2 * Settle)
		synctest.Wait()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupPending {
			t.Errorf("phase is %s, want the other writer's", got)
		}
	})
}

func TestDesiredStatusesOfADeletedPodGroup(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.cluster.Writes()
		w.desire(running(1))
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		time.Sleep(2 * Settle)
		synctest.Wait()
		if got := w.cluster.Writes(); len(got) != 0 || len(w.podGroups) != 0 {
			t.Errorf("writes: %v, statuses kept: %d", got, len(w.podGroups))
		}
	})
}

// TestDeletedPodGroupIsForgotten checks that nothing is kept of a deleted PodGroup, whether its status has been
// written, is being written, or is delayed.
func TestDeletedPodGroupIsForgotten(t *testing.T) {
	deleted := func(w *testWriter) { w.remove(schedtest.MakePodGroup().Name("g").Obj()) }
	tests := map[string]func(w *testWriter){
		"before its status is written": func(w *testWriter) {
			w.desire(running(1))
			deleted(w)
		},
		"after its status was written, and before that is seen": func(w *testWriter) {
			w.desire(phase(scheduling.PodGroupRunning))
			deleted(w)
		},
		"while its status is being written": func(w *testWriter) {
			written := make(chan struct{})
			w.cluster.Volcano.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
				<-written
				return true, schedtest.MakePodGroup().Name("g").Obj(), nil
			})
			w.desire(phase(scheduling.PodGroupRunning))
			deleted(w)
			close(written)
			synctest.Wait()
		},
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				do(w)
				if len(w.podGroups) != 0 || len(w.ours) != 0 {
					t.Errorf("%d desired and %d written statuses are kept, want none", len(w.podGroups), len(w.ours))
				}
			})
		})
	}
}

func unscheduled(nominated string) *v1.Pod {
	p := pod(0).Obj()
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
	p.Status.NominatedNodeName = nominated
	return p
}

func TestWhenPodConditionsAreWritten(t *testing.T) {
	once := []string{"update pods/status p0"}
	tests := map[string]struct {
		nominated   string
		meanwhile   func(w *testWriter)
		soon, later []string
	}{
		"a pod found unschedulable is updated a while later":                    {later: once},
		"a nomination is written at once":                                       {nominated: "n", soon: once},
		"a pod that is being bound by then is not updated":                      {meanwhile: func(w *testWriter) { w.placed.Store(pod(0).Obj().UID, true) }},
		"a pod that is bound by then is not updated":                            {meanwhile: func(w *testWriter) { w.add(pod(0).Node("n").Obj()) }},
		"a pod that is bound by then, unknown to the scheduler, is not updated": {meanwhile: func(w *testWriter) { w.add(pod(0).Node("n").Obj()) }},
		"a pod that is deleted by then is not updated":                          {meanwhile: func(w *testWriter) { w.remove(pod(0).Obj()) }},
		"a pod of the same name, unknown to the scheduler, is not updated": {meanwhile: func(w *testWriter) {
			w.add(pod(0).UID("new").Obj())
		}},
		"a pod of the same name is not updated": {meanwhile: func(w *testWriter) {
			w.remove(pod(0).Obj())
			w.add(pod(0).UID("new").Obj())
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				w.cluster.Writes()
				if _, err := w.UpdatePodStatus(unscheduled(tt.nominated)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(tt.soon, w.cluster.Writes()); diff != "" {
					t.Errorf("writes at once (-want +got):\n%s", diff)
				}
				if tt.meanwhile != nil {
					tt.meanwhile(w)
				}
				time.Sleep(2 * Settle)
				synctest.Wait()
				if diff := cmp.Diff(tt.later, w.cluster.Writes()); diff != "" {
					t.Errorf("writes later (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestADecisionDuringAWriteIsWrittenNext checks that a status requested during a write is written next.
func TestADecisionDuringAWriteIsWrittenNext(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		newer := unscheduled("")
		newer.Status.Conditions[0].Message = "no room, and then less"
		told := false
		w.cluster.Kube.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !told {
				told = true
				w.PutPod(newer, 0)
			}
			return false, nil, nil
		})
		w.PutPod(unscheduled(""), 0)
		for range 3 {
			synctest.Wait()
			w.deliver(w.cluster.Pod("p0"))
			time.Sleep(LastRetry)
		}
		if diff := cmp.Diff("False Unschedulable: no room, and then less", podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
	})
}

// TestAFailedReportIsRetried checks that a pod's condition is written although the API server fails at first.
func TestAFailedReportIsRetried(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		failures := 3
		w.cluster.Kube.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, apierrors.NewInternalError(errBroken)
		})
		if _, err := w.UpdatePodStatus(unscheduled("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * Settle)
		synctest.Wait()
		if got := podScheduled(w.cluster, "p0"); got != "False Unschedulable: no room" {
			t.Errorf("condition is %q", got)
		}
	})
}

// TestRootQueueIsWrittenByTheWriter checks that the writer writes the root queue. Upstream updates it in the session,
// with two calls.
func TestRootQueueIsWrittenByTheWriter(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.add(schedtest.MakeQueue().Name("root").Obj())
		w.cluster.Writes()
		cpus := func(n string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)} }
		desire := func(deserved, allocated string) {
			queues := upstream.QueueClient(w.cluster.Volcano, w.PutQueue).SchedulingV1beta1().Queues()
			queue := schedtest.MakeQueue().Name("root").Obj()
			queue.Spec.Deserved, queue.Status.Allocated = cpus(deserved), cpus(allocated)
			queue, err := queues.Update(context.Background(), queue, metav1.UpdateOptions{})
			if err == nil {
				_, err = queues.UpdateStatus(context.Background(), queue, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		desire("1", "1")
		desire("8", "2")
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes from within the session: %v", got)
		}
		time.Sleep(2 * Settle)
		synctest.Wait()
		if diff := cmp.Diff([]string{"update queues root", "update queues/status root"}, w.cluster.Writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		queue, err := w.cluster.Volcano.SchedulingV1beta1().Queues().Get(t.Context(), "root", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]v1.ResourceList{cpus("8"), cpus("2")}, []v1.ResourceList{queue.Spec.Deserved, queue.Status.Allocated}); diff != "" {
			t.Errorf("deserved and allocated (-want +got):\n%s", diff)
		}
		w.deliver(queue)
		desire("8", "2")
		time.Sleep(2 * Settle)
		synctest.Wait()
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes of an unchanged status: %v", got)
		}
	})
}

// TestAStatusIsWrittenWithoutTheAnnotations checks that a status is written without changing the annotations, which
// the watch leaves out because they belong to users.
func TestAStatusIsWrittenWithoutTheAnnotations(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		pg := w.cluster.PodGroup("g")
		pg.Annotations = map[string]string{"example.com/notes": "long"}
		pg = w.cluster.Put(pg).(*v1beta1.PodGroup)
		pg.Annotations = nil
		w.deliver(pg)
		w.desire(phase(scheduling.PodGroupRunning))
		got := w.cluster.PodGroup("g")
		if got.Status.Phase != v1beta1.PodGroupRunning || got.Annotations["example.com/notes"] != "long" {
			t.Errorf("the PodGroup is %s with the annotations %v, want %s with its former annotations", got.Status.Phase, got.Annotations, v1beta1.PodGroupRunning)
		}
	})
}

// TestADesiredStatusIsOfOneObject checks that a desired status applies to one object. A PodGroup that replaces another
// of the same name does not get the former status, even if the watch has not shown the deletion.
func TestADesiredStatusIsOfOneObject(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.desire(running(1))
		former := w.cluster.PodGroup("g")
		w.cluster.Remove(former)
		next := former.DeepCopy()
		next.UID, next.Status = "next", v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending}
		w.deliver(w.cluster.Put(next))
		if status, _ := w.LastKnown(w.podGroup()); status.Running != 0 {
			t.Errorf("the new PodGroup has %d running members, want none", status.Running)
		}
		time.Sleep(2 * Settle)
		synctest.Wait()
		if writes := w.cluster.Writes(); len(writes) != 0 || len(w.podGroups) != 0 {
			t.Errorf("written are %v, and %d statuses are kept, want none", writes, len(w.podGroups))
		}
	})
}

// TestAConditionKeepsItsTime checks that a condition keeps its time when another part of the status is written, until its
// text changes. Plugins of upstream set some conditions in each session with another time.
func TestAConditionKeepsItsTime(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		write := func(message string, counter int32) time.Time {
			w.desire(func(status *scheduling.PodGroupStatus) {
				unschedulable("R", message)(status)
				status.Running = counter
			})
			time.Sleep(2 * Settle)
			w.deliver(w.cluster.PodGroup("g"))
			pg := w.cluster.PodGroup("g")
			if pg.Status.Running != counter {
				t.Fatalf("PodGroup counts %d running members, want %d", pg.Status.Running, counter)
			}
			return pg.Status.Conditions[0].LastTransitionTime.Time
		}
		first := write("m", 0)
		if again := write("m", 1); !again.Equal(first) {
			t.Errorf("the condition has time %s, want that of its first write, %s", again, first)
		}
		if changed := write("n", 1); !changed.After(first) {
			t.Errorf("the condition with another message has time %s, want a time after %s", changed, first)
		}
	})
}
