// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const year = 365 * 24 * time.Hour

// runsAndIsDeleted makes the pod run and deletes it, with this grace period, as soon as it has started.
func (w *harness) runsAndIsDeleted(pod *v1.Pod, grace time.Duration) {
	w.t.Helper()
	seconds, due, now := int64(grace/time.Second), metav1.NewTime(time.Now().Add(grace)), metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &now
	pod.Spec.TerminationGracePeriodSeconds, pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp, pod.Finalizers = &seconds, &seconds, &due, nil
	w.add(pod)
}

// comes adds a gang of n pods to the queue. Each pod requests this amount of CPU.
func (w *harness) comes(name, queue, cpu string, n int) {
	w.t.Helper()
	w.add(schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(n)).Obj())
	for i := range n {
		w.add(schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Req(schedtest.Resources{"cpu": cpu}).Obj())
	}
}

func nodeOfPod(cluster *schedtest.Cluster, pod string) string { return cluster.Pod(pod).Spec.NodeName }

// TestDeletedPodsThatRunOnCountAgainstTheirQueue checks that deleted pods that still run count against their queue. A
// tenant submits pods, deletes them with a grace period of a year or of seconds once they run, and submits the next
// pods. Pods whose PodGroup was deleted too also count.
func TestDeletedPodsThatRunOnCountAgainstTheirQueue(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		for _, form := range []struct {
			orphaned bool
			grace    time.Duration
		}{{false, year}, {true, year}, {false, 100 * time.Second}, {true, 100 * time.Second}} {
			t.Run(fmt.Sprint(plugin, form), func(t *testing.T) {
				withHarness(t, func(t *testing.T, w *harness) {
					w.add(schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "4"}).Obj())
					w.add(nodeOf8(0).Obj(), nodeOf8(1).Obj())
					s := newSessions(w, explainConf(plugin))
					ran := 0
					for round := range 4 {
						gang := fmt.Sprint("g", round)
						w.comes(gang, "q", "1", 4)
						for range 4 {
							s.cycle()
						}
						for i := range 4 {
							if pod := w.cluster.Pod(fmt.Sprint(gang, "-", i)); pod.Spec.NodeName != "" {
								ran++
								w.runsAndIsDeleted(pod, form.grace)
							}
						}
						if form.orphaned && round == 0 {
							w.remove(schedtest.MakePodGroup().Name("g0").Queue("q").Obj())
						}
					}
					if ran != 4 {
						t.Errorf("%d pods of 1 cpu run at a time in a queue of 4 cpu, want 4", ran)
					}
				})
			})
		}
	}
}

// TestDeletedPodsOfADeadNodeLeaveTheirQueue checks that deleted pods of a dead node leave their queue. No kubelet
// ends them, and the next gang must be able to run.
func TestDeletedPodsOfADeadNodeLeaveTheirQueue(t *testing.T) {
	for _, ready := range []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionUnknown} {
		t.Run(string(ready), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "4"}).Obj())
				dead := nodeOf8(0).Obj()
				w.add(dead)
				s := newSessions(w, explainConf("capacity"))
				w.comes("former", "q", "4", 1)
				for range 4 {
					s.cycle()
				}
				w.runsAndIsDeleted(w.cluster.Pod("former-0"), year)
				w.add(nodeOf8(1).Obj())
				w.comes("next", "q", "4", 1)
				for range 4 {
					s.cycle()
				}
				if node := nodeOfPod(w.cluster, "next-0"); node != "" {
					t.Fatalf("the next gang runs on %s beside a pod that fills the queue", node)
				}
				const why = "queue q has reached its capability: cpu 4 of 4 in use (4 by pods being deleted), 4 requested"
				if conditions := w.cluster.PodGroup("next").Status.Conditions; len(conditions) != 1 || conditions[0].Message != why {
					t.Errorf("the conditions of the next gang are %v, want a message with %q", conditions, why)
				}
				dead = dead.DeepCopy()
				dead.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
				w.add(dead)
				for range 4 {
					s.cycle()
				}
				if nodeOfPod(w.cluster, "next-0") == "" {
					t.Error("the next gang does not run although the pod that filled the queue is on a dead node")
				}
			})
		})
	}
}

// TestAGangDoesNotWaitForAPodThatStays checks that a gang does not wait for a deleted pod whose grace period is long.
// Otherwise the gang would hold the idle nodes, for up to a year. A gang does wait for a pod that ends in a minute: it
// holds the idle nodes, and runs after the pod has ended.
func TestAGangDoesNotWaitForAPodThatStays(t *testing.T) {
	for grace, holds := range map[time.Duration]bool{year: false, time.Hour: false, time.Minute: true} {
		t.Run(grace.String(), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				for i := range 3 {
					w.add(nodeOf8(i).Obj())
				}
				s := newSessions(w, explainConf("proportion"))
				w.add(schedtest.MakePodGroup().Name("small").MinMember(1).Obj())
				small := schedtest.MakePod().Name("small-0").Group("small").Node("n00").Req(schedtest.Resources{"cpu": "1"}).Obj()
				w.runsAndIsDeleted(small, grace)
				small = w.cluster.Pod("small-0")
				long := metav1.NewTime(time.Now().Add(-time.Hour))
				small.Status.StartTime = &long
				w.add(small)
				w.comes("big", schedtest.Queue, "64", 3)
				s.cycle()
				w.comes("other", schedtest.Queue, "1", 1)
				s.cycle()
				if waits := nodeOfPod(w.cluster, "other-0") == ""; waits != holds {
					t.Errorf("the other gang waits: %t, want %t", waits, holds)
				}
				if !holds {
					return
				}
				w.remove(small)
				s.cycle()
				if nodeOfPod(w.cluster, "big-0") == "" {
					t.Error("the gang does not run although the pod has ended")
				}
			})
		})
	}
}

// TestAVictimIsWaitedForSomeMinutes checks that a gang waits for a victim for 11 minutes only, since the victim's grace
// period may be a year. Afterwards, the gang no longer holds the idle node that it needs beside the victim's node:
// another gang runs. The victim is not evicted again.
func TestAVictimIsWaitedForSomeMinutes(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(nodeOf8(0).Obj(), nodeOf8(1).Obj())
		s := newSessions(w, explainConf("proportion"))
		w.add(schedtest.MakePodGroup().Name("victim").MinMember(1).Obj())
		victim := schedtest.MakePod().Name("victim-0").Group("victim").Node("n00").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj()
		w.add(victim)
		if err := w.cache.Evict(api.NewTaskInfo(victim), "test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // The cluster deletes the pod at once, and the watch shows a grace period of a year.
		w.runsAndIsDeleted(victim, year)
		w.comes("big", schedtest.Queue, "64", 2)
		w.comes("other", schedtest.Queue, "1", 1)
		var minute int
		leaves := func() bool { return !w.cache.Snapshot().Nodes["n00"].Releasing.IsEmpty() }
		for begin := time.Now(); leaves() && minute < 60; minute = int(time.Since(begin) / time.Minute) {
			time.Sleep(30 * time.Second)
			s.cycle()
		}
		if minute != 11 {
			t.Errorf("the victim leaves for %d minutes, want 11", minute)
		}
		if s.cycle(); nodeOfPod(w.cluster, "other-0") == "" {
			t.Error("the other gang does not run")
		}
		given := w.cache.Snapshot()
		if status := given.Nodes["n00"].Tasks["ns/victim-0"].Status; api.PreemptableStatus(status) || status == api.Running {
			t.Errorf("the victim is %s on its node, want a status with which it is not evicted", status)
		}
		for _, job := range given.Jobs {
			if len(job.TaskStatusIndex[api.Running]) > 1 {
				t.Errorf("job %s has %d running tasks", job.UID, len(job.TaskStatusIndex[api.Running]))
			}
		}
		if got := given.Jobs["ns/victim"].ReadyTaskNum(); got != 0 {
			t.Errorf("%d members of the victim's gang count, want none", got)
		}
	})
}

// TestADeletedPodCountsNoMoreThanItsNodeHas checks that a deleted pod counts for no more than its node has. A tenant
// may name any node and request any amount. In the job that stands for deleted pods, the minimum includes the whole
// counted amount, because upstream lets other gangs use resources above the minimum.
func TestADeletedPodCountsNoMoreThanItsNodeHas(t *testing.T) {
	for name, tt := range map[string]struct {
		cpu, node string
		want      float64
	}{
		"it fits": {"1", "n", 1000}, "it requests more": {"1e15", "n", 8000}, "no such node": {"1e15", "nowhere", 0},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				w.add(pod(0).Req(schedtest.Resources{"cpu": tt.cpu}).Node(tt.node).Phase(v1.PodRunning).Terminating().Obj())
				given, _, _ := w.cache.SessionSnapshot()
				job := given.Jobs[framework.DeletedJob(gang)]
				if job == nil || job.Allocated.MilliCPU != tt.want {
					t.Fatalf("the queue's count has %v, want %v milli-cpu", job, tt.want)
				}
				if needs := job.GetMinResources(); needs.MilliCPU != tt.want || !job.GetElasticResources().IsEmpty() {
					t.Errorf("%v of it are the minimum and %v elastic, want only the minimum", needs, job.GetElasticResources())
				}
				if len(job.TaskStatusIndex[api.Running]) > 0 {
					t.Error("it counts as running, and shuffle evicts such pods")
				}
			})
		})
	}
}

// TestADeletedPodCountsInNoQueueThatDoesNotExist checks that a deleted pod does not count if its queue does not
// exist, or if it has no gang.
func TestADeletedPodCountsInNoQueueThatDoesNotExist(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		group := schedtest.MakePodGroup().Name("g").Queue("gone").MinMember(1).Obj()
		w.add(group, pod(0).Node("n").Phase(v1.PodRunning).Terminating().Obj())
		w.add(schedtest.MakePod().Name("lone").Node("n").Phase(v1.PodRunning).Terminating().Obj())
		if given, _, _ := w.cache.SessionSnapshot(); len(given.Jobs) > 0 {
			t.Errorf("a session has jobs %v, want none", given.Jobs)
		}
	})
}
