// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// preempting returns sessions with preempt, in a cluster with 4 nodes of 64 CPUs and a queue q with this capability.
func preempting(w *harness, plugin, cpu string, change ...func(*conf.PluginOption)) *sessions {
	w.t.Helper()
	w.add(schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": cpu}).Obj())
	for i := range 4 {
		w.add(nodeOf8(i).Label(v1.LabelHostname, fmt.Sprintf("n%02d", i)).Obj())
	}
	w.cache.books.Lock()
	for priority := range int32(2) {
		class := schedtest.PriorityClass(fmt.Sprint("p", priority), priority)
		w.cache.books.Tables.Priorities[class.Name] = class
	}
	w.cache.books.Unlock()
	s := newSessions(w, explainConf(plugin), evictionbackoff.Spec())
	s.preempts([]string{"priority", "gang", "predicates", plugin}, change...)
	return s
}

// preempts makes the sessions run preempt with these plugins.
func (s *sessions) preempts(plugins []string, change ...func(*conf.PluginOption)) {
	s.t.Helper()
	s.registry.RegisterAction(preempt.New(nil))
	in := framework.ProfileInput{Actions: []string{"enqueue", "allocate", "preempt"}, Tiers: []conf.Tier{evictionbackoff.Tier(), transaction.Tier(0)}}
	yes := true
	for _, name := range plugins {
		option := conf.PluginOption{
			Name: name, EnabledJobOrder: &yes, EnabledTaskOrder: &yes, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledPreemptable: &yes,
			EnabledPredicate: &yes, EnabledQueueOrder: &yes, EnabledAllocatable: &yes, EnabledJobEnqueued: &yes, EnabledOverused: &yes, EnabledJobStarving: &yes,
		}
		for _, change := range change {
			change(&option)
		}
		in.Tiers = append(in.Tiers, conf.Tier{Plugins: []conf.PluginOption{option}})
	}
	profile, err := s.registry.Build(in, s.cache.handle)
	if err != nil {
		s.t.Fatal(err)
	}
	s.profile = profile
}

// podLimit is a plugin that limits queue q to a number of pods. It counts tasks, as deviceshare does.
type podLimit int

func (podLimit) Name() string                      { return "podlimit" }
func (podLimit) OnSessionClose(*framework.Session) {}
func (p podLimit) OnSessionOpen(ssn *framework.Session) {
	ssn.AddAllocatableFn(p.Name(), func(queue *api.QueueInfo, task *api.TaskInfo) bool {
		tasks, gone := ssn.QueueUse.Asked(task)
		n := len(tasks) - len(gone)
		for _, job := range ssn.Jobs {
			for _, of := range job.Tasks {
				if job.Queue == "q" && (api.AllocatedStatus(of.Status) || of.Status == api.Pipelined || framework.IsDeletedJob(job.UID)) {
					n++
				}
			}
		}
		return queue.Name != "q" || n <= int(p)
	})
}

// submits adds a gang of priority 0 or 1 to the queue, with one pod for each of the nodes. The pods' grace period is
// 9 minutes.
func (w *harness) submits(name, queue, cpu string, priority int32, nodes ...string) {
	w.t.Helper()
	w.add(schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(len(nodes))).PriorityClass(fmt.Sprint("p", priority)).Obj())
	for i, node := range nodes {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Priority(priority).Req(schedtest.Resources{"cpu": cpu}).Annotation("volcano.sh/preemptable", "true").NodeSelector(v1.LabelHostname, node)
		made, grace := pod.Obj(), int64(540)
		made.Spec.TerminationGracePeriodSeconds = &grace
		w.add(made)
	}
}

// needs changes the minimum of the gang.
func (w *harness) needs(gang string, members int32) {
	podGroup := w.cluster.PodGroup(gang).DeepCopy()
	podGroup.Spec.MinMember = members
	w.add(podGroup)
}

// settle runs cycles. Bound pods start to run, and evicted pods get the grace period.
func (s *sessions) settle(grace time.Duration, pods ...string) {
	s.t.Helper()
	for range 5 {
		before := map[string]*v1.Pod{}
		for _, name := range pods {
			before[name], _ = s.latest[fmt.Sprintf("%T %s/%s", &v1.Pod{}, schedtest.Namespace, name)].(*v1.Pod)
		}
		s.cycle()
		for _, name := range pods {
			object, err := s.cluster.Kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), schedtest.Namespace, name)
			switch known := before[name]; {
			case known == nil || known.DeletionTimestamp != nil:
			case err != nil:
				s.runsAndIsDeleted(known.DeepCopy(), grace)
			case object.(*v1.Pod).Spec.NodeName != "" && known.Status.Phase != v1.PodRunning:
				pod := object.(*v1.Pod).DeepCopy()
				pod.Status.Phase = v1.PodRunning
				s.add(pod)
			}
		}
	}
}

// TestATenantRunsNoMoreByEvictingItsOwnPods checks that a tenant does not run more pods than its queue admits by
// evicting its own. In each round, a pod of 64 CPUs is submitted, and then a gang of higher priority that evicts it.
// The gang is then deleted, waits for its victim, or waits for more members than can be placed. The victims have a
// grace period of a year or of 9 minutes.
func TestATenantRunsNoMoreByEvictingItsOwnPods(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		for _, then := range []string{"is deleted", "waits", "waits for more members", "waits for a member that fits nowhere"} {
			for _, grace := range []time.Duration{year, 9 * time.Minute} {
				t.Run(fmt.Sprint(plugin, " ", then, " ", grace), func(t *testing.T) {
					withHarness(t, func(t *testing.T, w *harness) {
						s := preempting(w, plugin, "64")
						var pods []string
						for round := range 4 {
							node := fmt.Sprintf("n%02d", round)
							runner, bait := fmt.Sprint("runner", round), fmt.Sprint("bait", round)
							w.submits(runner, "q", "64", 0, node)
							pods = append(pods, runner+"-0")
							s.settle(grace, pods...)
							w.submits(bait, "q", "64", 1, node)
							s.settle(grace, pods...)
							switch then {
							case "is deleted":
								w.remove(w.cluster.Pod(bait + "-0"))
								w.remove(w.cluster.PodGroup(bait))
							case "waits for more members":
								w.needs(bait, 9)
							case "waits for a member that fits nowhere": // A trial places the other member and reverts it.
								w.add(schedtest.MakePod().Name(bait + "-1").Group(bait).Priority(1).Req(schedtest.Resources{"cpu": "65"}).Obj())
								w.needs(bait, 2)
								s.settle(grace, pods...)
							}
						}
						run := 0
						for _, name := range pods {
							if nodeOfPod(w.cluster, name) != "" {
								run++
							}
						}
						if run != 1 || w.cluster.Pod("runner0-0").DeletionTimestamp == nil {
							t.Errorf("%d pods of 64 cpu run in a queue of 64, and the first is evicted: %v, want 1 that is", run, w.cluster.Pod("runner0-0").DeletionTimestamp != nil)
						}
					})
				})
			}
		}
	}
}

// TestAGangHoldsWhatItsVictimsFree checks that a gang holds the resources that its victims free. One of its two victims
// ends before the other. The gang holds that victim's node against a gang of another queue. In its own queue, the gang
// and its victims count once, so the queue has room for a third pod.
func TestAGangHoldsWhatItsVictimsFree(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion", "podlimit"} {
		t.Run(plugin, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := preempting(w, "capacity", "192")
				if plugin == "podlimit" {
					s.registry.RegisterPlugin(framework.PluginSpec{Name: plugin, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
						return podLimit(2), nil
					})})
				}
				s.preempts([]string{"priority", "gang", "predicates", plugin})
				pods := []string{"victim0-0", "victim1-0", "third-0", "gang-0", "gang-1", "other-0"}
				w.submits("victim0", "q", "64", 0, "n00")
				w.submits("victim1", "q", "64", 0, "n01")
				s.settle(time.Minute, pods...)
				w.submits("gang", "q", "64", 1, "n00", "n01")
				s.settle(time.Minute, pods...)
				w.submits("third", "q", "64", 0, "n02")
				s.settle(time.Minute, pods...)
				if nodeOfPod(w.cluster, "third-0") == "" && plugin != "podlimit" { // For other queues, the plugin counts the victims and their gang.
					t.Error("a pod waits that has room in the queue beside the gang or its victims")
				}
				w.remove(w.cluster.Pod("victim0-0"))
				w.submits("other", schedtest.Queue, "64", 0, "n00")
				s.settle(time.Minute, pods...)
				if node := nodeOfPod(w.cluster, "other-0"); node != "" {
					t.Errorf("another queue's pod has node %s, which a victim of the gang has freed", node)
				}
				w.remove(w.cluster.Pod("victim1-0"))
				s.settle(time.Minute, pods...)
				if nodeOfPod(w.cluster, "gang-0") == "" || nodeOfPod(w.cluster, "gang-1") == "" {
					t.Errorf("the gang runs on %q and %q, want both nodes of its victims", nodeOfPod(w.cluster, "gang-0"), nodeOfPod(w.cluster, "gang-1"))
				}
			})
		})
	}
}

// grouped is a plugin that places the gangs of its group together, once all of them exist.
type grouped struct {
	group *binding.GangGroup
	ssn   *framework.Session
}

func (*grouped) Name() string                           { return "grouped" }
func (g *grouped) OnSessionOpen(ssn *framework.Session) { g.ssn = ssn }
func (*grouped) OnSessionClose(*framework.Session)      {}
func (g *grouped) GangGroup(job *api.JobInfo) *binding.GangGroup {
	in := false
	for _, terms := range g.group.Gangs {
		if g.ssn.Jobs[terms.Gang] == nil {
			return nil
		}
		in = in || terms.Gang == job.UID
	}
	if !in {
		return nil
	}
	return g.group
}

// TestAGroupHoldsWhatItsVictimsFree checks that a gang group holds the resources that its victims free. A gang of 16
// CPUs evicts a pod of 64 CPUs, and the other gang of its group takes 64 CPUs of an idle node. Once the pod has ended,
// both gangs fill their queue. Until then, the other gang holds its node against another queue.
func TestAGroupHoldsWhatItsVictimsFree(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion", "podlimit"} {
		t.Run(plugin, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := preempting(w, "capacity", "80")
				together := &grouped{group: &binding.GangGroup{ID: "together", Gangs: []binding.GangTerms{{Gang: "ns/evicts"}, {Gang: "ns/beside"}}}}
				for _, made := range []framework.Plugin{podLimit(2), together} {
					s.registry.RegisterPlugin(framework.PluginSpec{Name: made.Name(), Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
						return made, nil
					})})
				}
				s.preempts([]string{"priority", "gang", "predicates", plugin, "grouped"})
				pods := []string{"victim-0", "evicts-0", "beside-0", "other-0"}
				w.submits("victim", "q", "64", 0, "n00")
				s.settle(time.Minute, pods...)
				w.submits("evicts", "q", "16", 1, "n00")
				s.settle(time.Minute, pods...)
				w.submits("beside", "q", "64", 1, "n01")
				s.settle(time.Minute, pods...)
				w.submits("other", schedtest.Queue, "64", 0, "n01")
				s.settle(time.Minute, pods...)
				if node := nodeOfPod(w.cluster, "other-0"); node != "" {
					t.Errorf("another queue's pod has node %s, which the group holds", node)
				}
				w.remove(w.cluster.Pod("victim-0"))
				s.settle(time.Minute, pods...)
				if nodeOfPod(w.cluster, "evicts-0") == "" || nodeOfPod(w.cluster, "beside-0") == "" {
					t.Errorf("the gangs run on %q and %q, want n00 and n01", nodeOfPod(w.cluster, "evicts-0"), nodeOfPod(w.cluster, "beside-0"))
				}
			})
		})
	}
}

// TestAVictimCountsInTheQueuesThatCountedIt checks that a victim counts in the queues that counted it. A pod of queue q
// with 64 CPUs is evicted and runs on for years. A gang of 64 CPUs in a sibling queue runs, unless queues are nested
// and it exceeds their parent's capability.
func TestAVictimCountsInTheQueuesThatCountedIt(t *testing.T) {
	for _, tt := range []struct {
		nested bool
		parent string
		want   bool
	}{{true, "128", true}, {true, "127", false}, {true, "", true}, {false, "127", true}} {
		t.Run(fmt.Sprintf("nested %t, parent %q", tt.nested, tt.parent), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := preempting(w, "capacity", "64", func(option *conf.PluginOption) {
					if option.Name == "capacity" {
						option.EnabledHierarchy = &tt.nested
					}
				})
				in := func(parent string, queue *v1beta1.Queue) *v1beta1.Queue {
					queue = queue.DeepCopy()
					queue.Spec.Parent = parent
					return queue
				}
				parent := schedtest.MakeQueue().Name("p")
				if tt.parent != "" {
					parent.Capability(schedtest.Resources{"cpu": tt.parent})
				}
				queue := func(name string) *v1beta1.Queue {
					return schedtest.MakeQueue().Name(name).Capability(schedtest.Resources{"cpu": "64"}).Obj()
				}
				w.add(schedtest.MakeQueue().Name("root").Obj(), in("root", parent.Obj()), in("p", queue("q")), in("p", queue("beside")), in("root", schedtest.MakeQueue().Name(schedtest.Queue).Obj()))
				pods := []string{"victim-0", "gang-0", "other-0"}
				w.submits("victim", "q", "64", 0, "n00")
				s.settle(year, pods...)
				w.submits("gang", "q", "64", 1, "n00")
				s.settle(year, pods...)
				if w.cluster.Pod("victim-0").DeletionTimestamp == nil {
					t.Fatal("the pod is not evicted")
				}
				w.needs("gang", 9) // so that it does not hold the resources
				w.submits("other", "beside", "64", 0, "n01")
				s.settle(year, pods...)
				if got := nodeOfPod(w.cluster, "other-0") != ""; got != tt.want {
					t.Errorf("the gang of the other queue runs: %t, want %t", got, tt.want)
				}
			})
		})
	}
}

// TestVictimsOfSeveralGangsCountOnce checks that the victims of several gangs count once. Four gangs evict four pods
// of one node, which use 64 of the 80 CPUs of their queue. The queue can admit another pod of 16 CPUs. One of the
// gangs takes the place of whichever pod ends first, and a gang of another queue does not.
func TestVictimsOfSeveralGangsCountOnce(t *testing.T) {
	for first := range 4 {
		for _, plugin := range []string{"capacity", "proportion"} {
			t.Run(fmt.Sprint(plugin, first), func(t *testing.T) { testVictimsOfSeveralGangs(t, plugin, first) })
		}
	}
}

func testVictimsOfSeveralGangs(t *testing.T, plugin string, first int) {
	withHarness(t, func(t *testing.T, w *harness) {
		s := preempting(w, plugin, "80")
		var pods []string
		for i := range 4 {
			pods = append(pods, fmt.Sprintf("victim%d-0", i), fmt.Sprintf("gang%d-0", i))
			w.submits(fmt.Sprint("victim", i), "q", "16", 0, "n00")
		}
		s.settle(9*time.Minute, pods...)
		for i := range 4 {
			w.submits(fmt.Sprint("gang", i), "q", "16", 1, "n00")
		}
		s.settle(9*time.Minute, pods...)
		for i := range 4 {
			if w.cluster.Pod(fmt.Sprintf("victim%d-0", i)).DeletionTimestamp == nil {
				t.Fatalf("pod %d is not evicted", i)
			}
		}
		w.submits("beside", "q", "16", 0, "n01")
		s.settle(9*time.Minute, append(pods, "beside-0")...)
		if nodeOfPod(w.cluster, "beside-0") == "" {
			t.Error("a pod waits that has room in the queue beside the victims or their gangs")
		}
		w.remove(w.cluster.Pod(fmt.Sprintf("victim%d-0", first)))
		w.submits("other", schedtest.Queue, "16", 0, "n00")
		s.settle(9*time.Minute, append(pods, "other-0")...)
		run := 0
		for i := range 4 {
			if nodeOfPod(w.cluster, fmt.Sprintf("gang%d-0", i)) != "" {
				run++
			}
		}
		if run != 1 || nodeOfPod(w.cluster, "other-0") != "" {
			t.Errorf("%d gangs take the place of a pod that ended, and another queue's gang has node %q, want 1 and none", run, nodeOfPod(w.cluster, "other-0"))
		}
	})
}

// TestTheQueueThatRefusesIsNotBlamedOnVictims checks the message of a gang that its queue refuses. It names the plugin
// that refuses, and not the victims for which another gang waits in queue q.
func TestTheQueueThatRefusesIsNotBlamedOnVictims(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		s := preempting(w, "capacity", "64")
		pods := []string{"victim-0", "gang-0"}
		w.submits("victim", "q", "64", 0, "n00")
		s.settle(year, pods...)
		w.submits("gang", "q", "64", 1, "n00")
		s.settle(year, pods...)
		guaranteed := schedtest.MakeQueue().Name("guaranteed").Obj()
		guaranteed.Spec.Guarantee.Resource = v1.ResourceList{"cpu": resource.MustParse("250")}
		w.add(guaranteed)
		w.submits("g", schedtest.Queue, "7", 0, "n02")
		s.settle(year, pods...)
		if says := s.says(); !strings.Contains(says, "(plugin capacity)") {
			t.Errorf("the gang's message is %q, want the refusing plugin", says)
		}
	})
}

// TestVictimsDoNotUseUpAShareThatIsLargeEnough checks that a gang is placed on idle nodes while a victim of another gang of its
// queue terminates, which is larger than that gang. The queue has room for all of them.
func TestVictimsDoNotUseUpAShareThatIsLargeEnough(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		t.Run(plugin, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := preempting(w, plugin, "1k")
				pods := []string{"victim-0", "gang-0", "other-0"}
				w.submits("victim", "q", "64", 0, "n00")
				s.settle(9*time.Minute, pods...)
				w.submits("gang", "q", "1", 1, "n00")
				s.settle(9*time.Minute, pods...)
				w.submits("other", "q", "64", 0, "n01")
				s.settle(9*time.Minute, pods...)
				if nodeOfPod(w.cluster, "other-0") == "" || nodeOfPod(w.cluster, "gang-0") != "" {
					t.Errorf("the other gang runs on %q, and the gang that waits for its victim on %q, want the former only: %s", nodeOfPod(w.cluster, "other-0"), nodeOfPod(w.cluster, "gang-0"), s.says())
				}
			})
		})
	}
}

// TestOnlyNomineesTakeTheRoomOfVictims checks that only pods of the evicting gang take the room of victims in the
// queue. A second pod of the gang runs on another node while the victim of the first pod still runs and its node is
// cordoned. The gang and the victim fill the queue, so no other gang runs.
func TestOnlyNomineesTakeTheRoomOfVictims(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		s := preempting(w, "capacity", "128")
		pods := []string{"victim-0", "gang-0", "gang-1", "other-0"}
		w.submits("victim", "q", "64", 0, "n00")
		s.settle(9*time.Minute, pods...)
		w.submits("gang", "q", "64", 1, "n00")
		s.settle(9*time.Minute, pods...)
		cordoned := nodeOf8(0).Label(v1.LabelHostname, "n00").Obj()
		cordoned.Spec.Unschedulable = true
		w.add(cordoned)
		w.add(schedtest.MakePod().Name("gang-1").Group("gang").Priority(1).Req(schedtest.Resources{"cpu": "64"}).NodeSelector(v1.LabelHostname, "n02").Obj())
		w.submits("other", "q", "64", 0, "n01")
		s.settle(9*time.Minute, pods...)
		if nodeOfPod(w.cluster, "gang-1") == "" || nodeOfPod(w.cluster, "other-0") != "" {
			t.Errorf("the gang's other pod runs on %q and another gang's on %q, want that only the former runs", nodeOfPod(w.cluster, "gang-1"), nodeOfPod(w.cluster, "other-0"))
		}
	})
}

// TestAGangTakesTheRoomOfItsVictimsForMinutes checks that a gang takes the room of its victims only for some minutes.
// The victim fills the queue and runs on, its node is cordoned, and the gang holds another node. A quarter of an hour
// later the gang no longer holds it, although the victim still runs, and another queue's pod gets the node.
func TestAGangTakesTheRoomOfItsVictimsForMinutes(t *testing.T) {
	for later, want := range map[time.Duration]bool{0: true, 15 * time.Minute: false} {
		t.Run(later.String(), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := preempting(w, "capacity", "64")
				pods := []string{"victim-0", "gang-0", "other-0"}
				w.submits("victim", "q", "64", 0, "n00")
				s.settle(year, pods...)
				w.submits("gang", "q", "64", 1, "n00")
				s.settle(year, pods...)
				cordoned := nodeOf8(0).Label(v1.LabelHostname, "n00").Obj()
				cordoned.Spec.Unschedulable = true
				w.add(cordoned, nodeOf8(1).Label(v1.LabelHostname, "n00").Obj())
				time.Sleep(later)
				w.submits("other", schedtest.Queue, "64", 0, "n00")
				s.settle(year, pods...)
				if got := nodeOfPod(w.cluster, "other-0") == ""; got != want || nodeOfPod(w.cluster, "gang-0") != "" {
					t.Errorf("the gang holds the node: %t, and runs on %q, want %t and that it waits", got, nodeOfPod(w.cluster, "gang-0"), want)
				}
			})
		})
	}
}
