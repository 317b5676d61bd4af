// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var limits = strings.Replace(sessionsConf, "ARGUMENTS", "", 1)

// waits is a gang with settings that needs four members of 1 cpu each.
func waits(name string) *schedtest.PodGroupBuilder {
	return schedtest.MakePodGroup().Name(name).MinMember(4).MinResources(cores("4")).Phase(v1beta1.PodGroupPending).
		Annotation(gangs.WaitingTimeAnnotation, "60s")
}

// narrow is a cluster with one queue, which may use 4 cpus.
func narrow(groups []*schedtest.PodGroupBuilder, pods ...*v1.Pod) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{
		Nodes:  []*v1.Node{holds("8").Name("n1").Obj()},
		Pods:   pods,
		Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name(schedtest.Queue).Capability(cores("4")).Obj()},
	}
	for _, group := range groups {
		w.PodGroups = append(w.PodGroups, group.Obj())
	}
	return w
}

func small() *schedtest.PodBuilder { return schedtest.MakePod().Req(cores("1")) }

// TestGangTimesOut checks that the condition of a gang that timed out states the waiting time and the missing pods.
// Before that, another gang runs without waiting for the first one.
func TestGangTimesOut(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		if got := w.condition("a", TimeLimit).Reason; w.phase("a") != scheduling.PodGroupInqueue || got != gangAdmitted {
			t.Fatalf("the gang is %s and its condition has reason %q, want it admitted", w.phase("a"), got)
		}
		other := schedtest.MakePodGroup().Name("b").MinMember(4).MinResources(cores("4")).Phase(v1beta1.PodGroupPending).Obj()
		w.cluster.Cache().AddPodGroupV1beta1(other)
		w.add(members(small(), "b", 4)...)
		w.pass(10*time.Second, 10*time.Second)
		if !w.runs("b") {
			t.Error("the other gang waits for resources of an admitted gang that has too few pods")
		}
		w.pass(60*time.Second, 10*time.Second)
		back := w.condition("a", TimeLimit)
		for _, want := range []string{"Not scheduled within 1m0s (timeout 1)", "NotEnoughTasks", "minMember is 4 and there are 3 pods"} {
			if back.Reason != timedOut || back.Status != v1.ConditionTrue || !strings.Contains(back.Message, want) {
				t.Errorf("the condition after the timeout is %s %s, want %q in it", back.Reason, back.Message, want)
			}
		}
	})
}

// TestAnAbsentGangKeepsItsWaitingTime checks that the waiting time of a gang continues if a session does not have the
// gang, as in a search for an object that makes sessions panic. It starts again after an absence of framework.AbsentFor.
func TestAnAbsentGangKeepsItsWaitingTime(t *testing.T) {
	for absent, want := range map[time.Duration]string{10 * time.Second: timedOut, framework.AbsentFor: gangAdmitted} {
		in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
			w.session()
			w.pass(20*time.Second, 10*time.Second)
			job, jobs := w.job("a"), w.cluster.Cache().Jobs
			delete(jobs, job.UID)
			time.Sleep(absent)
			w.session()
			jobs[job.UID] = job
			w.pass(30*time.Second, 10*time.Second)
			if got := w.condition("a", TimeLimit).Reason; got != want {
				t.Errorf("after an absence of %s and 50s in sessions the gang is %s, want %s", absent, got, want)
			}
		})
	}
}

// TestABackoffEndsWhenRoomHasCome: the backoff of a gang that timed out for lack of resources ends when resources
// become idle. A gang that always had room waits for another reason, so its backoff continues.
func TestABackoffEndsWhenRoomHasCome(t *testing.T) {
	blocker := func(cpu string) *v1.Pod {
		return schedtest.MakePod().Name("blocker").Scheduler("other").Node("n1").Phase(v1.PodRunning).Req(cores(cpu)).Obj()
	}
	for name, c := range map[string]struct {
		taken string
		label string
		// first is the CPU of the first member; "" means the same as that of the others.
		first string
		want  bool
	}{
		"room for none, then for all":   {taken: "8", want: true},
		"one member larger than others": {taken: "8", first: "2500m", want: true},
		"room for some, then for all":   {taken: "5", want: true},
		"room for all on a wrong node":  {taken: "1", label: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			member := small()
			if c.label != "" {
				member.NodeSelector("right", c.label)
			}
			pod := blocker(c.taken)
			pods := members(member, "a", 4)
			if c.first != "" {
				pods = members(member.Req(cores("500m")), "a", 4)
				pods[0] = schedtest.MakePod().Name("a-0").Group("a").Req(cores(c.first)).Obj()
			}
			in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, append(pods, pod)...), limits, func(t *testing.T, w *simulation) {
				for began := time.Now(); w.condition("a", TimeLimit).Reason != timedOut; {
					if time.Since(began) > 2*time.Minute {
						t.Fatal("the gang does not time out")
					}
					w.pass(time.Second, time.Second)
				}
				w.pass(2*time.Second, time.Second)
				if w.runs("a") || w.phase("a") != scheduling.PodGroupPending {
					t.Fatalf("the gang is %s after its timeout", w.phase("a"))
				}
				w.cluster.Cache().DeletePod(pod)
				w.pass(2*time.Second, time.Second)
				if w.runs("a") != c.want || (w.phase("a") != scheduling.PodGroupPending) != c.want {
					t.Errorf("two seconds after the node became idle the gang is %s and runs: %t, want %t", w.phase("a"), w.runs("a"), c.want)
				}
			})
		})
	}
}

// TestABackoffEndsWhenTheGangsNodesAreIdle: nodes that the gang's node selector excludes always had room for the gang.
// Its backoff still ends once as many resources have become idle as the gang requests.
func TestABackoffEndsWhenTheGangsNodesAreIdle(t *testing.T) {
	cluster := narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small().NodeSelector("right", "yes"), "a", 4)...)
	cluster.Nodes[0].Labels["right"] = "yes"
	cluster.Nodes = append(cluster.Nodes, holds("8").Name("n2").Obj())
	blocker := func(n, cpu string) *v1.Pod {
		return schedtest.MakePod().Name("blocker-" + n).Scheduler("other").Node("n1").Phase(v1.PodRunning).Req(cores(cpu)).Obj()
	}
	cluster.Pods = append(cluster.Pods, blocker("0", "3"), blocker("1", "4"))
	in(t, cluster, limits, func(t *testing.T, w *simulation) {
		back, _ := w.sentBack("a", 10*time.Minute)
		for w.condition("a", TimeLimit).Reason != timedOut {
			w.pass(time.Second, time.Second)
		}
		w.pass(2*time.Second, time.Second)
		w.cluster.Cache().DeletePod(blocker("0", "3"))
		w.pass(2*time.Second, time.Second)
		if w.phase("a") != scheduling.PodGroupPending {
			t.Errorf("the gang is %s, want its backoff to continue while fewer resources became idle than it requests", w.phase("a"))
		}
		w.cluster.Cache().DeletePod(blocker("1", "4"))
		w.pass(2*time.Second, time.Second)
		if !w.runs("a") {
			t.Errorf("after timeouts at %v s, the gang is %s two seconds after its node became idle", back, w.phase("a"))
		}
	})
}

// TestPodsWithoutRequestsWaitForTheEndOfTheBackoff: pods without requests need no idle resources, so nothing ends their
// backoff early.
func TestPodsWithoutRequestsWaitForTheEndOfTheBackoff(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(schedtest.MakePod().NodeSelector("right", "yes"), "a", 4)...), limits, func(t *testing.T, w *simulation) {
		for w.condition("a", TimeLimit).Reason != timedOut {
			if w.pass(time.Second, time.Second); w.sessions > 120 {
				t.Fatal("the gang does not time out")
			}
		}
		w.pass(5*time.Second, time.Second)
		if got := w.condition("a", TimeLimit).Reason; got != timedOut {
			t.Errorf("the condition is %s after half of the backoff, want %s", got, timedOut)
		}
	})
}

// sentBack lists the times, in seconds from now, when the gang timed out and when it was admitted again.
func (w *simulation) sentBack(gang string, for_ time.Duration) (back, in []int) {
	began := time.Now()
	was := w.condition(gang, TimeLimit).Reason
	for time.Since(began) < for_ {
		time.Sleep(time.Second)
		w.session()
		reason := w.condition(gang, TimeLimit).Reason
		if reason != was && reason == timedOut {
			back = append(back, int(time.Since(began).Seconds()))
		}
		if reason != was && reason == gangAdmitted {
			in = append(in, int(time.Since(began).Seconds()))
		}
		was = reason
	}
	return back, in
}

func TestBackoffDoubles(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		back, in := w.sentBack("a", 10*time.Minute)
		if len(back) < 5 || len(in) < 4 || back[0] != 60 {
			t.Fatalf("timeouts after %v s and admissions after %v s, want the first timeout after 60 s and an admission after each", back, in)
		}
		for i, want := range []float64{10, 20, 40, 80} {
			if got := float64(in[i] - back[i]); got < 0.8*want-1 || got > 1.2*want+1 {
				t.Errorf("backoff %d took %v s, want about %v", i, got, want)
			}
			if got := back[i+1] - in[i]; got != 60 {
				t.Errorf("the gang waited %d s after backoff %d, want 60", got, i)
			}
		}
	})
}

// TestGangGroupTimesOutTogether: the shortest waiting time of a group's gangs applies, even that of a gang that is not
// admitted yet.
func TestGangGroupTimesOutTogether(t *testing.T) {
	group := func(name, time string) *schedtest.PodGroupBuilder {
		return waits(name).Annotation(gangs.GroupsAnnotation, `["ns/a","ns/b"]`).Annotation(gangs.WaitingTimeAnnotation, time)
	}
	pods := append(members(small(), "a", 4), members(small(), "b", 3)...)
	for _, times := range [][2]string{{"10m", "30s"}, {"30s", "10m"}} {
		in(t, narrow([]*schedtest.PodGroupBuilder{group("a", times[0]), group("b", times[1])}, pods...), limits, func(t *testing.T, w *simulation) {
			w.session()
			if w.phase("a") == w.phase("b") {
				t.Fatalf("the gangs are %s and %s, want room for one of them", w.phase("a"), w.phase("b"))
			}
			w.pass(30*time.Second, time.Second)
			a, b := w.condition("a", TimeLimit), w.condition("b", TimeLimit)
			if a.Reason != timedOut || b.Reason != timedOut || a.Message != b.Message {
				t.Fatalf("conditions %q and %q, want a timeout of both gangs", a.Message, b.Message)
			}
			if w.phase("a") != scheduling.PodGroupPending || w.phase("b") != scheduling.PodGroupPending {
				t.Errorf("the gangs are %s and %s, want both Pending", w.phase("a"), w.phase("b"))
			}
			if wait := w.condition("a", scheduling.PodGroupUnschedulableType); wait.Reason == "" {
				t.Error("the gang has no reason why it waits")
			}
		})
	}
}

// TestGangsThatDoNotTimeOut checks that a gang has no condition TimeLimit if it has no settings, is not admitted, or
// has a bound member.
func TestGangsThatDoNotTimeOut(t *testing.T) {
	running := small().Node("n1").Phase(v1.PodRunning)
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		pods  []*v1.Pod
	}{
		"a PodGroup without settings": {group: schedtest.MakePodGroup().Name("a").MinMember(4).MinResources(cores("4")), pods: members(small(), "a", 3)},
		"a partially bound gang": {group: waits("a").Phase(v1beta1.PodGroupInqueue), pods: []*v1.Pod{
			running.Name("a-0").Group("a").Obj(), small().Name("a-1").Group("a").Obj(),
		}},
		"a gang that was satisfied once": {group: waits("a").MinMember(1).Phase(v1beta1.PodGroupInqueue), pods: []*v1.Pod{
			running.Node("n1").Phase(v1.PodRunning).Name("a-0").Group("a").Obj(),
			schedtest.MakePod().Req(cores("100")).Name("a-1").Group("a").Obj(),
		}},
		"a gang that is not admitted": {group: waits("a").MinResources(cores("5")), pods: members(schedtest.MakePod().Req(cores("1")), "a", 3)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, narrow([]*schedtest.PodGroupBuilder{tt.group}, tt.pods...), limits, func(t *testing.T, w *simulation) {
				w.session()
				w.pass(20*time.Minute, 10*time.Second)
				if got := w.condition("a", TimeLimit); got.Type != "" {
					t.Errorf("the gang's condition is %s: %s, want none", got.Reason, got.Message)
				}
			})
		})
	}
}

// TestAGangThatWasNotTriedDoesNotTimeOut checks that a gang that allocate did not try in a session, because of the limit
// of its namespace, does not time out in that session.
func TestAGangThatWasNotTriedDoesNotTimeOut(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		for range 12 {
			w.session(func(ssn *sessiontest.Session) { ssn.Placements.SetUntried("ns/a", true) })
			time.Sleep(10 * time.Second)
		}
		if got := w.condition("a", TimeLimit).Reason; got != gangAdmitted {
			t.Errorf("untried for 120 s, the gang's condition has reason %q, want %q", got, gangAdmitted)
		}
		w.session()
		if got := w.condition("a", TimeLimit).Reason; got != timedOut {
			t.Errorf("in a session without that limit, the gang's condition has reason %q, want %q", got, timedOut)
		}
	})
}

// TestTimeLimitsOutliveTheConfiguration checks that a reload keeps the time that the gang has waited and its number of
// timeouts. A new leader starts again.
func TestTimeLimitsOutliveTheConfiguration(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(40*time.Second, 10*time.Second)
		former := w.plugin.alarm
		w.reload(limits)
		if former.timer != nil {
			t.Error("the plugin of the former configuration still opens sessions")
		}
		w.pass(20*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit); got.Reason != timedOut || !strings.Contains(got.Message, "(timeout 1)") {
			t.Fatalf("condition %s: %s, want a timeout one minute after the admission", got.Reason, got.Message)
		}
		w.reload(limits)
		time.Sleep(3 * time.Second)
		w.session()
		if got := w.condition("a", TimeLimit).Reason; got != timedOut || w.phase("a") != scheduling.PodGroupPending {
			t.Fatalf("condition %s, want the backoff to continue with the next configuration", got)
		}
		w.pass(90*time.Second, time.Second)
		if got := w.condition("a", TimeLimit); !strings.Contains(got.Message, "(timeout 2)") {
			t.Errorf("condition %s: %s, want its second timeout", got.Reason, got.Message)
		}
		w.lead()
		if back, _ := w.sentBack("a", 90*time.Second); !slices.Equal(back, []int{61}) || w.plugin.limits["ns/a"].tries != 1 {
			t.Errorf("with a new leader the gang times out after %v s, want 61 and its first timeout: %s", back, w.condition("a", TimeLimit).Message)
		}
	})
}

// TestForgedTimeLimitsDecideNothing: a tenant may write or delete the condition, with any reason and date, but that
// does not change when the gang times out.
func TestForgedTimeLimitsDecideNothing(t *testing.T) {
	for name, forge := range map[string]func(*scheduling.PodGroupCondition){
		"admitted long ago": func(c *scheduling.PodGroupCondition) {
			c.Reason, c.LastTransitionTime.Time = gangAdmitted, time.Now().Add(-time.Hour)
		},
		"admitted in the future": func(c *scheduling.PodGroupCondition) {
			c.Reason, c.LastTransitionTime.Time = gangAdmitted, time.Now().Add(time.Hour)
		},
		"a million timeouts": func(c *scheduling.PodGroupCondition) {
			c.Reason, c.Message = timedOut, "Not scheduled within 1m0s (timeout 1000000)"
		},
		"deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
				w.session()
				for i := range 59 {
					status := &w.job("a").PodGroup.Status
					status.Conditions = nil
					if forge != nil {
						forged := scheduling.PodGroupCondition{Type: TimeLimit, Status: v1.ConditionTrue}
						forge(&forged)
						status.Conditions = append(status.Conditions, forged)
					}
					time.Sleep(time.Second)
					if w.session(); w.phase("a") != scheduling.PodGroupInqueue || w.condition("a", TimeLimit).Reason != gangAdmitted {
						t.Fatalf("after %d s the gang is %s, and its condition has message %q", i+1, w.phase("a"), w.condition("a", TimeLimit).Message)
					}
				}
				time.Sleep(time.Second)
				if w.session(); !strings.Contains(w.condition("a", TimeLimit).Message, "(timeout 1)") {
					t.Errorf("after a minute the condition has message %q, want the first timeout", w.condition("a", TimeLimit).Message)
				}
			})
		})
	}
}

// TestANewGangOfTheSameName checks that the backoff of a deleted gang does not delay a new gang of the same name.
func TestANewGangOfTheSameName(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(60*time.Second, 10*time.Second)
		again := waits("a").Obj()
		w.cluster.Cache().DeletePodGroupV1beta1(again)
		again.UID = "another"
		w.cluster.Cache().AddPodGroupV1beta1(again)
		w.add(small().Name("a-3").Group("a").Obj())
		w.session()
		if !w.runs("a") {
			t.Errorf("the new gang does not run: %v", w.job("a").PodGroup.Status.Conditions)
		}
	})
}

// TestRoomThatIsBeingMadeFor checks that the waiting time doubles for a gang that waits for resources being released.
func TestRoomThatIsBeingMadeFor(t *testing.T) {
	leaving := schedtest.MakePod().Name("leaving").Group("old").Req(cores("8")).Node("n1").Phase(v1.PodRunning).Obj()
	cluster := narrow([]*schedtest.PodGroupBuilder{waits("a"), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning)}, append(members(small(), "a", 4), leaving)...)
	cluster.Queues = nil
	in(t, cluster, limits, func(t *testing.T, w *simulation) {
		w.update("leaving", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
		w.session()
		back, _ := w.sentBack("a", 3*time.Minute)
		if !slices.Equal(back, []int{120}) {
			t.Errorf("timeouts after %v s, want one after 120", back)
		}
	})
}

// TestAlarm checks that the alarm requests a session when its time has come, and none after it is closed.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int32
		a := &alarm{wake: func() { woken.Add(1) }}
		expect := func(want int32, why string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := woken.Load(); got != want {
				t.Errorf("%d sessions were requested, want %d: %s", got, want, why)
			}
		}
		a.set(time.Now().Add(30 * time.Second))
		expect(1, "a time was up")
		a.set(time.Now().Add(-time.Second))
		expect(2, "a time is up already")
		a.set(time.Now().Add(30 * time.Second))
		a.set(time.Time{})
		expect(2, "no time is set")
		a.set(time.Now().Add(30 * time.Second))
		a.close()
		expect(2, "it was closed")
		a.set(time.Now())
		expect(2, "it is closed")
	})
}

// TestASessionOpensWhenABackoffEnds checks that a session is requested for the end of a backoff, even if no other
// session would open.
func TestASessionOpensWhenABackoffEnds(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		recorder := record.NewFakeRecorder(1000)
		w.cluster.Cache().Recorder = recorder
		for w.condition("a", TimeLimit).Reason != timedOut {
			if w.pass(time.Second, time.Second); w.sessions > 120 {
				t.Fatal("the gang does not time out")
			}
		}
		if w.plugin.alarm.timer == nil {
			t.Error("no session is scheduled for the end of the backoff")
		}
		events := 0
		for len(recorder.Events) > 0 {
			if event := <-recorder.Events; strings.HasPrefix(event, "Warning "+timedOut+" Not scheduled within 1m0s (timeout 1), retrying after ") {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d events report the timeout, want one", events)
		}
	})
}

// TestAGangInABackoffIsNotAdmitted: a gang with a high priority is in a backoff. It uses no resources of its queue, so
// that another gang of the queue is placed.
func TestAGangInABackoffIsNotAdmitted(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a").PriorityClass("high")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(60*time.Second, 10*time.Second)
		if got := w.condition("a", TimeLimit).Reason; got != timedOut {
			t.Fatalf("the gang has the condition %s, want %s", got, timedOut)
		}
		other := schedtest.MakePodGroup().Name("b").MinMember(4).MinResources(cores("4")).Phase(v1beta1.PodGroupPending).Obj()
		w.cluster.Cache().AddPodGroupV1beta1(other)
		w.add(members(small(), "b", 4)...)
		w.pass(time.Second, time.Second)
		if !w.runs("b") {
			t.Error("the other gang is not placed during the backoff")
		}
	})
}

// TestTimeoutsCountUntilAMemberIsBound checks that a gang keeps its number of timeouts while it waits for its queue
// after the backoff: its next timeout is the second one.
func TestTimeoutsCountUntilAMemberIsBound(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(60*time.Second, 10*time.Second)
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("b").MinMember(4).MinResources(cores("4")).Phase(v1beta1.PodGroupPending).Obj())
		w.add(members(small(), "b", 4)...)
		w.pass(60*time.Second, time.Second)
		if !w.runs("b") || w.phase("a") != scheduling.PodGroupPending {
			t.Fatalf("the other gang runs: %t, and the gang is %s, want it to wait for the queue", w.runs("b"), w.phase("a"))
		}
		for i := range 4 {
			w.remove(fmt.Sprint("b-", i))
		}
		w.pass(70*time.Second, time.Second)
		if got := w.condition("a", TimeLimit); got.Reason != timedOut || !strings.Contains(got.Message, "(timeout 2)") {
			t.Errorf("the gang's condition is %s: %s, want its second timeout", got.Reason, got.Message)
		}
	})
}

// TestALongWaitingTimeDoesNotOverflow: the longest possible waiting time is not doubled for a gang that waits for
// resources being released.
func TestALongWaitingTimeDoesNotOverflow(t *testing.T) {
	leaving := schedtest.MakePod().Name("leaving").Group("old").Req(cores("8")).Node("n1").Phase(v1.PodRunning).Obj()
	groups := []*schedtest.PodGroupBuilder{waits("a").Annotation(gangs.WaitingTimeAnnotation, "2500000h"), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning)}
	cluster := narrow(groups, append(members(small(), "a", 4), leaving)...)
	cluster.Queues = nil
	in(t, cluster, limits, func(t *testing.T, w *simulation) {
		w.update("leaving", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
		if back, _ := w.sentBack("a", time.Minute); len(back) > 0 {
			t.Errorf("the gang timed out after %v s", back)
		}
	})
}

// TestAPartiallyBoundGangIsInNoBackoff: a pod that was bound by hand makes the gang partially bound. Its other members
// no longer wait for the end of the backoff.
func TestAPartiallyBoundGangIsInNoBackoff(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a").MinResources(cores("3")).Annotation(gangs.WaitingTimeAnnotation, "10m")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(10*time.Minute, time.Minute)
		if got := w.condition("a", TimeLimit).Reason; got != timedOut {
			t.Fatalf("the gang has the condition %s, want %s", got, timedOut)
		}
		w.add(small().Name("a-3").Group("a").Node("n1").Phase(v1.PodRunning).Obj())
		w.pass(time.Second, time.Second)
		if got := w.condition("a", TimeLimit); !w.runs("a") || got.Type != "" {
			t.Errorf("the gang runs: %t, and its condition is %s: %s", w.runs("a"), got.Reason, got.Message)
		}
	})
}

// TestAVoteSetsTheCurrentJob checks that the plugin's vote on an admission sets the current job, because the plugin
// votes before other plugins. A panic during the vote is then attributed to the gang.
func TestAVoteSetsTheCurrentJob(t *testing.T) {
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		w.pass(61*time.Second, time.Second)
		w.session(func(ssn *sessiontest.Session) {
			ssn.SetCurrentJob("ns/other")
			if admitted := ssn.JobEnqueueable(ssn.Jobs["ns/a"]); admitted || w.registry.CurrentJob() != "ns/a" {
				t.Errorf("the gang is admitted: %t, and the current job is %q, want it not admitted, and ns/a", admitted, w.registry.CurrentJob())
			}
		})
	})
}
