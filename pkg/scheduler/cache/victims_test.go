// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// preempting are sessions with preempt, in a cluster with a queue q of so many cpu and 4 nodes of 64 cpu.
func preempting(w *world, plugin, cpu string) *sessions {
	w.t.Helper()
	w.add(schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": cpu}).Obj())
	for i := range 4 {
		w.add(nodeOf8(i).Label(v1.LabelHostname, fmt.Sprintf("n%02d", i)).Obj())
	}
	w.books.Lock()
	for priority := range int32(2) {
		class := schedtest.PriorityClass(fmt.Sprint("p", priority), priority)
		w.books.Tables.Priorities[class.Name] = class
	}
	w.books.Unlock()
	s := newSessions(w, explainConf(plugin), evictions.Spec())
	vcframework.RegisterAction(vcpreempt.New())
	in := framework.ProfileInput{Actions: []string{"enqueue", "allocate", "preempt"}, Tiers: []conf.Tier{evictions.Tier(), transaction.Tier(0)}}
	yes := true
	for _, name := range []string{"priority", "gang", "predicates", plugin} {
		option := conf.PluginOption{
			Name: name, EnabledJobOrder: &yes, EnabledTaskOrder: &yes, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledPreemptable: &yes,
			EnabledPredicate: &yes, EnabledQueueOrder: &yes, EnabledAllocatable: &yes, EnabledJobEnqueued: &yes, EnabledOverused: &yes, EnabledJobStarving: &yes,
		}
		in.Tiers = append(in.Tiers, conf.Tier{Plugins: []conf.PluginOption{option}})
	}
	profile, err := s.registry.Build(in, w.handle)
	if err != nil {
		w.t.Fatal(err)
	}
	s.profile = profile
	return s
}

// submits adds a gang of pods of the priority 0 or 1 to the queue, one for each of the nodes.
func (w *world) submits(name, queue, cpu string, priority int32, nodes ...string) {
	w.t.Helper()
	w.add(schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(len(nodes))).PriorityClass(fmt.Sprint("p", priority)).Obj())
	for i, node := range nodes {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Priority(priority).Req(schedtest.Resources{"cpu": cpu}).Annotation("volcano.sh/preemptable", "true").NodeSelector(v1.LabelHostname, node)
		w.add(pod.Obj())
	}
}

// settle runs cycles. Pods that are bound run, and those that are evicted have the grace period.
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

// TestATenantRunsNoMoreByEvictingItsOwnPods: each pod that it runs is evicted for another one of its own, which it then deletes, or which waits,
// also after its minimum was raised so that it does not even hold the room. The victims run on for years or minutes.
func TestATenantRunsNoMoreByEvictingItsOwnPods(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		for _, then := range []string{"is deleted", "waits", "waits for more members"} {
			for _, grace := range []time.Duration{year, 9 * time.Minute} {
				t.Run(fmt.Sprint(plugin, " ", then, " ", grace), func(t *testing.T) {
					inWorld(t, func(t *testing.T, w *world) {
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
								podGroup := w.cluster.PodGroup(bait).DeepCopy()
								podGroup.Spec.MinMember = 9
								w.add(podGroup)
							}
						}
						run := 0
						for _, name := range pods {
							if w.nodeOf(name) != "" {
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

// TestAGangHoldsWhatItsVictimsFree: one of two victims in a full queue ends before the other. The gang holds its node against another queue, and takes
// no more of its own queue than the victims and itself.
func TestAGangHoldsWhatItsVictimsFree(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion"} {
		t.Run(plugin, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				s := preempting(w, plugin, "192")
				pods := []string{"victim0-0", "victim1-0", "third-0", "gang-0", "gang-1", "other-0"}
				w.submits("victim0", "q", "64", 0, "n00")
				w.submits("victim1", "q", "64", 0, "n01")
				s.settle(time.Minute, pods...)
				w.submits("gang", "q", "64", 1, "n00", "n01")
				s.settle(time.Minute, pods...)
				w.submits("third", "q", "64", 0, "n02")
				s.settle(time.Minute, pods...)
				if w.nodeOf("third-0") == "" {
					t.Error("a pod waits that has room in the queue beside the gang or its victims")
				}
				w.remove(w.cluster.Pod("victim0-0"))
				w.submits("other", schedtest.Queue, "64", 0, "n00")
				s.settle(time.Minute, pods...)
				if node := w.nodeOf("other-0"); node != "" {
					t.Errorf("another queue's pod has node %s, which a victim of the gang has freed", node)
				}
				w.remove(w.cluster.Pod("victim1-0"))
				s.settle(time.Minute, pods...)
				if w.nodeOf("gang-0") == "" || w.nodeOf("gang-1") == "" {
					t.Errorf("the gang runs on %q and %q, want both nodes of its victims", w.nodeOf("gang-0"), w.nodeOf("gang-1"))
				}
			})
		})
	}
}
