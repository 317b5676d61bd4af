// SPDX-License-Identifier: Apache-2.0

package cache

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
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// verdict closes a session that has set the gang's status with decide.
func (w *harness) verdict(decide func(job *api.JobInfo)) {
	w.t.Helper()
	job := w.cache.Snapshot().Jobs[gang]
	decide(job)
	if _, err := w.cache.UpdateJobStatus(job, true, false, false); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func saysRunning(job *api.JobInfo) {
	job.PodGroup.Status.Phase = scheduling.PodGroupRunning
	setCondition(&job.PodGroup.Status, scheduling.PodGroupCondition{Type: scheduling.PodGroupScheduled, Status: v1.ConditionTrue, Reason: "tasks in gang are ready"})
}

func saysUnschedulable(job *api.JobInfo) {
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	setCondition(&job.PodGroup.Status, unschedulable("NotEnoughResources", "no room"))
}

// settled waits for the time in which a gang may count as arriving.
func (w *harness) settled() {
	w.verdict(func(*api.JobInfo) {})
	time.Sleep(2 * statuswriter.Settle)
	synctest.Wait()
	w.cluster.Writes()
	w.cluster.Events.Take()
}

// TestAGangWhoseLostMemberIsBeingBoundStaysInqueue checks that a gang below its minimum is not Pending while the member
// that replaces a lost one is being bound. Upstream does not count that member.
func TestAGangWhoseLostMemberIsBeingBoundStaysInqueue(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(gpuNodes(1)...)
		w.add(schedtest.MakePodGroup().Name("g").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj())
		w.add(pod(0).Node("n00").Phase(v1.PodRunning).Obj(), pod(1).Obj())
		w.settled()
		w.verdict(func(job *api.JobInfo) {
			for _, task := range job.TaskStatusIndex[api.Pending] {
				if err := job.UpdateTaskStatus(task, api.Binding); err != nil {
					t.Fatal(err)
				}
			}
			job.PodGroup.Status.Phase = scheduling.PodGroupPending
		})
		w.catchUp()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupInqueue {
			t.Errorf("the gang's phase is %s, want Inqueue", got)
		}
	})
}

// TestASatisfiedGangWithAFailedMemberSaysSo checks the status of a gang whose further members are bound one by one, and
// of which a member has failed without a replacement. Upstream sets phase Pending, and an old reason stays.
func TestASatisfiedGangWithAFailedMemberSaysSo(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(gpuNodes(1)...)
		w.add(schedtest.MakePodGroup().Name("g").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj())
		w.add(pod(0).Node("n00").Phase(v1.PodRunning).Obj(), pod(1).Node("n00").Phase(v1.PodFailed).Obj())
		w.settled()
		w.verdict(func(job *api.JobInfo) {
			saysUnschedulable(job)
			job.MinAvailable = 1
			job.PodGroup.Status.Phase = scheduling.PodGroupPending
		})
		w.catchUp()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupInqueue {
			t.Errorf("the gang's phase is %s, want Inqueue", got)
		}
		if diff := cmp.Diff("True NotEnoughResources: too few members are bound: 1 of minMember 2", conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition (-want +got):\n%s", diff)
		}
	})
}

// TestACompletedGangIsNotUnschedulable checks that a gang of which no member waits is not reported as unschedulable
// because too few of its members succeeded, as upstream reports it.
func TestACompletedGangIsNotUnschedulable(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(gpuNodes(1)...)
		w.add(schedtest.MakePodGroup().Name("g").MinMember(3).Phase(v1beta1.PodGroupRunning).Obj())
		for i, phase := range []v1.PodPhase{v1.PodSucceeded, v1.PodFailed, v1.PodFailed} {
			w.add(pod(i).Node("n00").Phase(phase).Obj())
		}
		w.settled()
		w.verdict(func(job *api.JobInfo) {
			saysUnschedulable(job)
			job.PodGroup.Status.Phase = scheduling.PodGroupCompleted
		})
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("the completed gang has the condition %s", got)
		}
		if events := w.cluster.Events.Take(); len(events) > 0 {
			t.Errorf("the events are %q, want none", events)
		}
	})
}

// TestATimeOutIsOneEventOfThePodGroup checks that a timeout is one event of the PodGroup, which plugin coscheduling
// records when it requeues the gang. Each pod has its own event.
func TestATimeOutIsOneEventOfThePodGroup(t *testing.T) {
	const pods = "Warning FailedScheduling p0: "
	tests := map[string]struct {
		limit scheduling.PodGroupCondition
		want  []string
	}{
		"the timeout of the gang": {
			limit: scheduling.PodGroupCondition{Type: gangs.TimeLimitCondition, Reason: gangs.TimedOut, Message: "sent back"},
			want:  []string{pods + "sent back"},
		},
		"a backoff of its group's that it came to later": {want: []string{pods + "sent back", "Warning Unschedulable g: sent back"}},
		"something else than the timeout": {
			limit: scheduling.PodGroupCondition{Type: gangs.TimeLimitCondition, Reason: gangs.TimedOut, Message: "sent back before"},
			want:  []string{pods + "sent back", "Warning Unschedulable g: sent back"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 3)
				w.settled()
				w.verdict(func(job *api.JobInfo) {
					test.limit.Status = v1.ConditionTrue
					setCondition(&job.PodGroup.Status, unschedulable(gangs.TimedOut, "sent back"))
					setCondition(&job.PodGroup.Status, test.limit)
				})
				if diff := cmp.Diff(test.want, slices.Sorted(slices.Values(w.cluster.Events.Take()))); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRegressionRunningWhilePending covers upstream's defect running-while-pending (volcano#4383): upstream reports a
// PodGroup as Running, or scheduled, while a member of its minimum is not bound.
func TestRegressionRunningWhilePending(t *testing.T) {
	tests := map[string]struct {
		pods      []*schedtest.PodBuilder
		place     []string
		phase     v1beta1.PodGroupPhase
		scheduled bool
	}{
		"all run": {
			pods:  []*schedtest.PodBuilder{pod(0).Node("n").Phase(v1.PodRunning), pod(1).Node("n").Phase(v1.PodRunning)},
			phase: v1beta1.PodGroupRunning, scheduled: true,
		},
		"one runs, one succeeded": {
			pods:  []*schedtest.PodBuilder{pod(0).Node("n").Phase(v1.PodRunning), pod(1).Node("n").Phase(v1.PodSucceeded)},
			phase: v1beta1.PodGroupRunning, scheduled: true,
		},
		"one runs, one failed": {
			pods:  []*schedtest.PodBuilder{pod(0).Node("n").Phase(v1.PodRunning), pod(1).Node("n").Phase(v1.PodFailed)},
			phase: v1beta1.PodGroupRunning,
		},
		"one is bound, one is pending": {
			pods:  []*schedtest.PodBuilder{pod(0).Node("n"), pod(1)},
			phase: v1beta1.PodGroupInqueue,
		},
		"both are being bound": {
			pods:  []*schedtest.PodBuilder{pod(0), pod(1)},
			place: []string{"p0", "p1"},
			phase: v1beta1.PodGroupInqueue,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 2)
				for _, p := range tt.pods {
					w.add(p.Obj())
				}
				w.mustPlace("n", nil, tt.place...)
				w.verdict(saysRunning)
				time.Sleep(2 * statuswriter.Settle)
				synctest.Wait()
				if got := w.cluster.PodGroup("g").Status.Phase; got != tt.phase {
					t.Errorf("phase is %s, want %s", got, tt.phase)
				}
				if got := conditionOf(w.cluster, v1beta1.PodGroupConditionType(scheduling.PodGroupScheduled)) != ""; got != tt.scheduled {
					t.Errorf("condition Scheduled exists: %v, want %v", got, tt.scheduled)
				}
			})
		})
	}
}

// TestGangReportsAMissingRole checks that a gang reports a missing role. Upstream counts members only, so it reports
// a gang without its leader as scheduled if it has enough members.
func TestGangReportsAMissingRole(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("leader", 1).Obj())
		w.add(pod(0).Role("worker").Node("n").Phase(v1.PodRunning).Obj(), pod(1).Role("worker").Node("n").Phase(v1.PodRunning).Obj(), pod(2).Role("leader").Obj())
		w.settled()
		w.verdict(saysRunning)
		want := `True NotEnoughResources: too few members are bound: 0 of minTaskMember 1 of "leader"`
		if diff := cmp.Diff(want, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition (-want +got):\n%s", diff)
		}
		w.deliver(w.cluster.PodGroup("g"))
		w.add(pod(2).Role("leader").Node("n").Phase(v1.PodRunning).Obj())
		w.verdict(saysRunning)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("condition once the leader runs is %q", got)
		}
	})
}

// TestAGangWhoseTransactionEndsIsNotShort checks that a gang whose transaction ends is not reported as incomplete. In
// the session's snapshot its members are being bound, but its transaction has ended when the session reports on the
// gang.
func TestAGangWhoseTransactionEndsIsNotShort(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.settled()
		w.mustPlace("n", nil, "p0", "p1")
		w.verdict(func(job *api.JobInfo) {
			w.cache.SealTransactions()
			synctest.Wait()
			saysRunning(job)
		})
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("condition of a gang that is bound is %q", got)
		}
	})
}

// TestVerdictWhileWaiting checks that a gang that waits after a failure keeps reporting the reason. Once it was tried
// again, the session's result counts.
func TestVerdictWhileWaiting(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.settled()
		w.failGang()
		w.deliver(w.cluster.PodGroup("g"))
		w.verdict(saysUnschedulable)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); !strings.HasPrefix(got, "True PreBindFailed") {
			t.Errorf("condition of a gang that waits is %q", got)
		}
		w.cache.RetryAll()
		w.verdict(saysUnschedulable)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "True NotEnoughResources: no room" {
			t.Errorf("condition after another try is %q", got)
		}
	})
}

// TestAGangThatIsBoundInPartIsNotJustInqueue checks that a gang that is partially bound after a failure is in phase
// Unknown, not Inqueue.
func TestAGangThatIsBoundInPartIsNotJustInqueue(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 3)
		w.add(pod(2).Node("n").Obj())
		w.settled()
		w.failGang()
		w.deliver(w.cluster.PodGroup("g"))
		w.verdict(saysUnschedulable)
		time.Sleep(2 * statuswriter.Settle)
		synctest.Wait()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupUnknown {
			t.Errorf("phase is %s while one member is bound and the others cannot be, want Unknown", got)
		}
	})
}

// TestAGangWithItsMinimumIsRunning checks that a gang with its minimum is Running, even if the session reports that
// further members, which must be placed together, fit nowhere.
func TestAGangWithItsMinimumIsRunning(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(3, 2)
		for i := range 2 {
			w.add(pod(i).Node("n").Phase(v1.PodRunning).Obj())
		}
		w.settled()
		w.verdict(func(job *api.JobInfo) {
			saysUnschedulable(job)
			job.PodGroup.Status.Phase = scheduling.PodGroupUnknown
		})
		time.Sleep(2 * statuswriter.Settle)
		synctest.Wait()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupRunning {
			t.Errorf("phase is %s, want Running", got)
		}
	})
}

func TestBoundGangDropsItsFailure(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		w.deliver(w.cluster.PodGroup("g"))
		w.cache.RetryAll()
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.sync("p0", "p1")
		w.verdict(saysRunning)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("condition of a bound gang is %q", got)
		}
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupRunning {
			t.Errorf("phase of a bound gang is %s", got)
		}
	})
}

// TestArrivingGang: A gang whose pods are created one by one is not reported as unschedulable for each missing pod.
func TestArrivingGang(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 3)
		w.cluster.Writes()
		for i := range 2 {
			w.add(pod(i).Obj())
			w.verdict(saysUnschedulable)
			time.Sleep(statuswriter.Settle / 2)
		}
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes while the gang arrives: %v", got)
		}
		if got := w.cluster.Events.Take(); len(got) != 0 {
			t.Errorf("events while the gang arrives: %v", got)
		}
		time.Sleep(statuswriter.Settle)
		for range 3 {
			w.verdict(saysUnschedulable)
			time.Sleep(2 * statuswriter.Settle)
			synctest.Wait()
			w.deliver(w.cluster.PodGroup("g"))
			w.sync("p0", "p1")
		}
		want := map[string]int{"patch podgroups g": 1, "update pods/status p0": 1, "update pods/status p1": 1}
		if diff := cmp.Diff(want, count(w.cluster.Writes())); diff != "" {
			t.Errorf("writes after the last pod (-want +got):\n%s", diff)
		}
		for event, n := range count(w.cluster.Events.Take()) {
			if n != 1 {
				t.Errorf("event was recorded %d times: %s", n, event)
			}
		}
	})
}

// TestAGangThatIsBeingBoundIsNotWrittenInBetween checks that no status is written while a gang is being bound. Phase
// Inqueue is not written a moment before phase Running, unless binding takes long.
func TestAGangThatIsBeingBoundIsNotWrittenInBetween(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.verdict(func(job *api.JobInfo) { job.PodGroup.Status.Phase = scheduling.PodGroupPending })
		w.settled()
		w.deliver(w.cluster.PodGroup("g"))
		hold := make(chan struct{})
		slow := binding.Step{Plugin: "slow", Timeout: time.Hour, PreBind: func(context.Context, *api.TaskInfo, string) error {
			<-hold
			return nil
		}}
		w.mustPlace("n", []binding.Step{slow}, "p0", "p1")
		w.cache.SealTransactions()
		w.cluster.Writes()
		w.verdict(saysRunning)
		if writes := w.cluster.Writes(); len(writes) > 0 {
			t.Errorf("written while the gang is being bound: %v", writes)
		}
		time.Sleep(2 * statuswriter.Settle)
		synctest.Wait()
		if diff := cmp.Diff([]string{"patch podgroups g"}, w.cluster.Writes()); diff != "" {
			t.Errorf("written when binding takes long (-want +got):\n%s", diff)
		}
		close(hold)
	})
}

// TestABookedHyperNodeIsNotInTheInformersObject checks that a HyperNode recorded for a gang is not written into the
// informer's object, which others read without a lock.
func TestABookedHyperNodeIsNotInTheInformersObject(t *testing.T) {
	for name, annotations := range map[string]map[string]string{"without annotations": nil, "with annotations": {"a": "b"}} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				shown := w.cluster.PodGroup("g")
				shown.Annotations = annotations
				w.deliver(w.cluster.Put(shown))
				inUse := w.cache.books.Jobs.Get(gang).PodGroup.Annotations
				before := maps.Clone(inUse)
				w.verdict(func(job *api.JobInfo) {
					job.PodGroup.Annotations = map[string]string{api.JobAllocatedHyperNode: "leaf"}
					w.cache.books.Jobs.NoteHyperNode(job)
				})
				if got := w.cache.books.Jobs.Get(gang).PodGroup.Annotations[api.JobAllocatedHyperNode]; got != "leaf" {
					t.Errorf("the next session sees HyperNode %q, want leaf", got)
				}
				if diff := cmp.Diff(before, inUse); diff != "" {
					t.Errorf("a map that others may read was written to (-before +after):\n%s", diff)
				}
			})
		})
	}
}
