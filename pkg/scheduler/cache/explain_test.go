// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// sessions runs cycles on a world.
type sessions struct {
	*world
	registry *framework.Registry
	profile  *framework.Profile
}

// explainConf is a conf with the named plugins beside gang and predicates.
func explainConf(plugins ...string) string {
	text := "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
	for _, plugin := range plugins {
		text += "  - name: " + plugin + "\n"
	}
	return text
}

func newSessions(w *world, confText string, specs ...framework.PluginSpec) *sessions {
	w.t.Helper()
	benchMetrics.Do(vcmetrics.InitKubeSchedulerRelatedMetrics)
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(confText)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &sessions{world: w, registry: framework.NewRegistry()}
	s.registry.RegisterPlugin(transaction.Spec(w.Cache))
	for _, spec := range append(specs, ibcluster.Spec()) {
		s.registry.RegisterPlugin(spec)
	}
	s.registry.RegisterAction(allocate.New())
	s.profile, err = s.registry.Build(framework.ProfileInput{
		Actions: []string{"enqueue", "allocate", "backfill"}, Tiers: append([]conf.Tier{transaction.Tier(0)}, tiers...), Configurations: configurations,
	}, w.handle)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// cycle runs one cycle and lets a second pass.
func (s *sessions) cycle() {
	conf.EnabledActionMap = map[string]bool{"enqueue": true, "allocate": true, "backfill": true}
	ssn := s.registry.OpenSession(s.Cache, s.profile)
	for _, action := range s.profile.Actions {
		ssn.Action = action.Name()
		action.Execute(ssn.Session)
	}
	s.registry.CloseSession(ssn)
	time.Sleep(statuswriter.Settle + 100*time.Millisecond)
	synctest.Wait()
}

// says is the PodGroup's condition that tells why members wait, as "Type reason: message".
func (s *sessions) says() string {
	for _, c := range s.cluster.PodGroup("g").Status.Conditions {
		if c.Message != "" {
			return fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return ""
}

// podSays is the PodScheduled condition of the pod as "reason: message".
func (s *sessions) podSays(name string) string {
	_, c := podutil.GetPodCondition(&s.cluster.Pod(name).Status, v1.PodScheduled)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// members are pods of gang g that ask for so many GPUs.
func members(n int, gpus string) []*schedtest.PodBuilder {
	var pods []*schedtest.PodBuilder
	for i := range n {
		pods = append(pods, pod(i).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": gpus}))
	}
	return pods
}

func nodeOf8(i int) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Name(fmt.Sprintf("n%02d", i)).Capacity(schedtest.Resources{"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"})
}

func gpuNodes(n int) []runtime.Object {
	var nodes []runtime.Object
	for i := range n {
		nodes = append(nodes, nodeOf8(i).Obj())
	}
	return nodes
}

// filler is a pod of another gang that takes all GPUs of the node.
func filler(i int) runtime.Object {
	return schedtest.MakePod().Name(fmt.Sprintf("filler%d", i)).Group("other").Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).
		Node(fmt.Sprintf("n%02d", i)).Phase(v1.PodRunning).Obj()
}

func other() runtime.Object {
	return schedtest.MakePodGroup().Name("other").MinMember(1).Phase(v1beta1.PodGroupRunning).Obj()
}

// TestWhyAGangWaits: each cause has its words, on the PodGroup and, the same, on its pods.
func TestWhyAGangWaits(t *testing.T) {
	minimum := func(n int32) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().Name("g").MinMember(n) }
	tests := map[string]struct {
		plugins []string
		objects []runtime.Object
		group   *schedtest.PodGroupBuilder
		pods    []*schedtest.PodBuilder
		want    string
	}{
		"its nodes are cordoned": {
			objects: []runtime.Object{nodeOf8(0).Cordon().Obj(), nodeOf8(1).Cordon().Obj()}, group: minimum(2), pods: members(2, "8"),
			want: "Unschedulable NotEnoughResources: 0/2 members fit: 2 nodes cordoned",
		},
		"three nodes are full before, one is tainted, the rest is full of its own members": {
			objects: append(gpuNodes(9), nodeOf8(9).Taint("maintenance", v1.TaintEffectNoSchedule).Obj(), other(), filler(0), filler(1), filler(2)),
			group:   minimum(10), pods: members(10, "8"),
			want: "Unschedulable NotEnoughResources: 6/10 members fit: 3 nodes short of nvidia.com/gpu, 1 tainted \"maintenance\", 6 filled by its members (nvidia.com/gpu)",
		},
		"it is larger than the cluster": {
			plugins: []string{"proportion"}, objects: gpuNodes(5), group: minimum(45), pods: members(45, "1"),
			want: "Unschedulable NotEnoughResources: 40/45 members fit: 5 nodes filled by its members (nvidia.com/gpu)",
		},
		"all resources that are short are named": {
			objects: gpuNodes(1), group: minimum(2), pods: []*schedtest.PodBuilder{
				pod(0).Req(schedtest.Resources{"cpu": "60", "nvidia.com/gpu": "8"}), pod(1).Req(schedtest.Resources{"cpu": "60", "nvidia.com/gpu": "8"}),
			},
			want: "Unschedulable NotEnoughResources: 1/2 members fit: 1 node filled by its members (cpu, nvidia.com/gpu)",
		},
		"a member asks for more than any node has": {
			objects: gpuNodes(2), group: minimum(1), pods: members(1, "16"),
			want: "Unschedulable NotEnoughResources: 0/1 members fit: 2 nodes short of nvidia.com/gpu; a member asks for more than any node has: nvidia.com/gpu 16 of at most 8",
		},
		"a member asks for more than the cluster has, and its queue is idle": {
			plugins: []string{"proportion"}, objects: gpuNodes(2), group: minimum(1), pods: members(1, "20"),
			want: "Unschedulable NotEnoughResources: 0/1 members fit: 2 nodes short of nvidia.com/gpu; a member asks for more than any node has: nvidia.com/gpu 20 of at most 8",
		},
		"one of its members asks for more than the cluster has": {
			plugins: []string{"proportion"}, objects: gpuNodes(2), group: minimum(3),
			pods: append(members(2, "1"), pod(2).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "20"})),
			want: "Unschedulable NotEnoughResources: 2/3 members fit: 1 node short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu); a member asks for more than any node has: nvidia.com/gpu 20 of at most 8",
		},
		"its queue is idle and its share is less than a member asks for": {
			plugins: []string{"proportion"}, objects: append(gpuNodes(2), schedtest.MakeQueue().Name("rich").Weight(31).Obj(),
				schedtest.MakePodGroup().Name("rich").Queue("rich").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj(),
				schedtest.MakePod().Name("rich0").Group("rich").NodeSelector("not", "there").Req(schedtest.Resources{"cpu": "128", "nvidia.com/gpu": "16"}).Obj()),
			group: minimum(1), pods: members(1, "8"),
			want: "Unschedulable QueueFull: queue default has no room in its share of the cluster (plugin proportion) for cpu 1, nvidia.com/gpu 8: the queue uses cpu 0, nvidia.com/gpu 0, the cluster has cpu 128, nvidia.com/gpu 16",
		},
		"its minMember is 0": {
			objects: gpuNodes(2), group: minimum(0), pods: members(1, "16"),
			want: "Scheduled tasks in gang are ready to be scheduled: the minimum is placed, 1 further member waits: 2 nodes short of nvidia.com/gpu; a member asks for more than any node has: nvidia.com/gpu 16 of at most 8",
		},
		"its queue has reached its capability": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(5), other(), filler(0),
				schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"nvidia.com/gpu": "20"}).Obj()),
			group: minimum(2), pods: members(2, "8"),
			want: "Unschedulable QueueFull: 1/2 members fit: queue default has reached its capability: nvidia.com/gpu 16 of 20 in use and 8 asked for",
		},
		"its queue is closed": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(1),
				schedtest.MakeQueue().Name(schedtest.Queue).State(v1beta1.QueueStateClosed).Obj()),
			group: minimum(1), pods: members(1, "1"),
			want: "Unschedulable QueueNotOpen: queue default is Closed: it takes no pods",
		},
		"its queue does not exist": {
			objects: gpuNodes(1), group: minimum(1).Queue("nosuch"), pods: members(1, "1"),
			want: `Unschedulable QueueNotFound: queue "nosuch" does not exist; create it, or correct spec.queue`,
		},
		"its queue does not exist, and its pods are made when it is let in": {
			objects: gpuNodes(1), group: minimum(1).Queue("nosuch").Phase(v1beta1.PodGroupPending),
			want: `Unschedulable QueueNotFound: queue "nosuch" does not exist; create it, or correct spec.queue`,
		},
		"its minResources are below 0": {
			objects: gpuNodes(1), group: minimum(1).MinResources(schedtest.Resources{"cpu": "-5"}), pods: members(1, "1"),
			want: "Unschedulable InvalidResources: spec.minResources[cpu] is -5, it must be 0 or more",
		},
		"too few pods exist": {
			objects: gpuNodes(1), group: minimum(4), pods: members(2, "1"),
			want: "Unschedulable NotEnoughTasks: minMember is 4 and there are 2 pods",
		},
		"no pod exists": {
			objects: gpuNodes(1), group: minimum(4),
			want: "Unschedulable NotEnoughTasks: minMember is 4 and there is no pod",
		},
		"pods of a role are missing": {
			objects: gpuNodes(1), group: minimum(2).MinTaskMember("worker", 1).MinTaskMember("launcher", 1), pods: []*schedtest.PodBuilder{
				members(1, "1")[0].Role("worker"), pod(1).Role("worker"),
			},
			want: `Unschedulable NotEnoughPodsOfTask: minTaskMember of "launcher" is 1 and there is no such pod`,
		},
		"pods of a Volcano Job are missing, and minAvailable is less than its tasks have together": {
			objects: gpuNodes(1), pods: members(1, "1"),
			group: minimum(3).OwnedBy("batch.volcano.sh/v1alpha1", "Job").MinTaskMember("worker", 2).MinTaskMember("launcher", 2),
			want:  "Unschedulable NotEnoughTasks: minMember is 3 and there is 1 pod",
		},
		"pods have scheduling gates": {
			objects: gpuNodes(1), group: minimum(3), pods: []*schedtest.PodBuilder{
				members(1, "1")[0], pod(1).Gate("example.com/quota"), pod(2).Gate("example.com/quota"),
			},
			want: "Unschedulable SchedulingGated: minMember is 3 and of the 3 pods 2 wait for their scheduling gates: example.com/quota",
		},
		"the only pod of a role has a scheduling gate": {
			objects: gpuNodes(1), group: minimum(2).MinTaskMember("worker", 1).MinTaskMember("launcher", 1), pods: []*schedtest.PodBuilder{
				members(1, "1")[0].Role("worker"), pod(1).Role("worker"), pod(2).Role("launcher").Gate("example.com/quota"),
			},
			want: `Unschedulable SchedulingGated: minTaskMember of "launcher" is 1 and of the 1 such pods 1 waits for their scheduling gates: example.com/quota`,
		},
		"the cluster is promised to others": {
			plugins: []string{"overcommit"}, objects: gpuNodes(1),
			group: minimum(1).Phase(v1beta1.PodGroupPending).MinResources(schedtest.Resources{"nvidia.com/gpu": "64"}), pods: members(1, "1"),
			want: "Unschedulable NotEnqueued: not admitted by plugin overcommit: minResources nvidia.com/gpu 64; cluster nvidia.com/gpu 8, used nvidia.com/gpu 0, reserved for admitted gangs nvidia.com/gpu 0",
		},
		"its minResources exceed what is left of its queue": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(2), schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"nvidia.com/gpu": "4"}).Obj()),
			group: minimum(1).Phase(v1beta1.PodGroupPending).MinResources(schedtest.Resources{"nvidia.com/gpu": "8"}), // its pods are made when it is let in
			want:  "Unschedulable QueueFull: not admitted by plugin capacity: minResources nvidia.com/gpu 8; queue default has reached its capability: nvidia.com/gpu 0 of 4 in use and 8 asked for",
		},
		"its minimum runs and further members have no room": {
			objects: append(gpuNodes(1), pod(8).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Node("n00").Phase(v1.PodRunning).Obj()),
			group:   minimum(1).Phase(v1beta1.PodGroupRunning), pods: members(2, "8"),
			want: "Scheduled tasks in gang are ready to be scheduled: the minimum is placed, 2 further members wait: 1 node filled by its members (nvidia.com/gpu)",
		},
		"no InfiniBand cluster holds it": {
			plugins: []string{"ibcluster\n    arguments:\n      ibcluster.levels: [fabric]"},
			objects: []runtime.Object{nodeOf8(0).Label("fabric", "ib-a").Obj(), nodeOf8(1).Label("fabric", "ib-a").Obj(), nodeOf8(2).Label("fabric", "ib-b").Obj(), other(), filler(0)},
			group:   minimum(2).Annotation(ibcluster.ModeAnnotation, "required"), pods: members(2, "8"),
			want: "Unschedulable NotEnoughResources: no node group holds the 2 members needed: ib-a 1/2: 1 node short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu); ib-b 1/2: 1 node filled by its members (nvidia.com/gpu)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.add(tt.objects...)
				w.add(tt.group.Obj())
				for _, pod := range tt.pods {
					w.add(pod.Obj())
				}
				s := newSessions(w, explainConf(tt.plugins...))
				for range 3 {
					s.cycle()
				}
				if diff := cmp.Diff(tt.want, s.says()); diff != "" {
					t.Errorf("the PodGroup says (-want +got):\n%s", diff)
				}
				if w.cluster.PodGroup("g").Status.Phase == v1beta1.PodGroupCompleted {
					t.Error("the PodGroup is called Completed")
				}
				_, message, _ := strings.Cut(tt.want, ": ")
				for _, p := range tt.pods {
					pod := p.Obj()
					if len(pod.Spec.SchedulingGates) > 0 {
						continue
					}
					if diff := cmp.Diff("Unschedulable: "+message, s.podSays(pod.Name)); diff != "" {
						t.Errorf("pod %s says (-want +got):\n%s", pod.Name, diff)
					}
				}
			})
		})
	}
}

// TestAPodWithASchedulingGateIsNotTold what the others of a gang that no session sees wait for: the API server says what it waits for.
func TestAPodWithASchedulingGateIsNotTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add(nodeOf8(0).Obj(), pod(0).Gate("example.com/quota").Obj(), pod(1).Obj())
		s := newSessions(w, explainConf())
		for range 3 {
			s.cycle()
		}
		const want = `PodGroupNotFound: PodGroup "g" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
		if diff := cmp.Diff([]string{"", want}, []string{s.podSays("p0"), s.podSays("p1")}); diff != "" {
			t.Errorf("pods say (-want +got):\n%s", diff)
		}
	})
}

// TestAGangWithSurplusIsScheduled: its minimum runs, so an event says that it is scheduled and why further members wait, once, and
// none that it is not.
func TestAGangWithSurplusIsScheduled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add(append(gpuNodes(1), schedtest.MakePodGroup().Name("g").MinMember(1).Obj(),
			pod(8).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Node("n00").Phase(v1.PodRunning).Obj())...)
		for _, pod := range members(2, "8") {
			w.add(pod.Obj())
		}
		s := newSessions(w, explainConf())
		var told []string
		for range 5 {
			s.cycle()
			for _, event := range w.cluster.Events.Take() {
				if strings.Contains(event, " g: ") {
					told = append(told, event)
				}
			}
			w.deliver(w.cluster.PodGroup("g"))
		}
		want := []string{"Normal Scheduled g: pod group is ready"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("events of the PodGroup (-want +got):\n%s", diff)
		}
	})
}

// TestGangsNotLetInAreToldTheSame: whichever order a map yields gangs in, the votes that are asked again name the same plugin
// for each in every cycle, so that nothing is written anew.
func TestGangsNotLetInAreToldTheSame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add(append(gpuNodes(1), other(), filler(0))...)
		var names []string
		for i := range 4 {
			name := fmt.Sprintf("waits%d", i)
			names = append(names, name)
			w.add(schedtest.MakePodGroup().Name(name).MinMember(1).Phase(v1beta1.PodGroupPending).Queue(fmt.Sprintf("q%d", i%2)).
				MinResources(schedtest.Resources{"nvidia.com/gpu": fmt.Sprint(2 + i/2)}).Obj())
		}
		w.add(schedtest.MakeQueue().Name("q0").Capability(schedtest.Resources{"nvidia.com/gpu": "8"}).Obj(),
			schedtest.MakeQueue().Name("q1").Capability(schedtest.Resources{"nvidia.com/gpu": "8"}).Obj())
		s := newSessions(w, explainConf("proportion", "overcommit"))
		said := func() map[string]string {
			all := map[string]string{}
			for _, name := range names {
				for _, c := range w.cluster.PodGroup(name).Status.Conditions {
					all[name] = c.Reason + ": " + c.Message
				}
			}
			return all
		}
		for range 3 {
			s.cycle()
		}
		first := said()
		if len(first) != len(names) {
			t.Errorf("%d of %d PodGroups are told why they wait: %v", len(first), len(names), first)
		}
		for range 10 {
			for _, name := range names {
				w.deliver(w.cluster.PodGroup(name))
			}
			s.cycle()
			if diff := cmp.Diff(first, said()); diff != "" {
				t.Errorf("nothing changed, yet they are told otherwise (-before +now):\n%s", diff)
				return
			}
		}
	})
}

// TestAPodWithoutItsPodGroupIsTold with a condition and an event, and is not when the PodGroup comes a moment later.
func TestAPodWithoutItsPodGroupIsTold(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("the PodGroup comes late: %v", late), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.add(gpuNodes(1)...)
				w.add(members(1, "1")[0].Obj())
				s := newSessions(w, explainConf())
				ssn := s.registry.OpenSession(w.Cache, s.profile)
				s.registry.CloseSession(ssn)
				if late {
					w.add(schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
				}
				time.Sleep(statuswriter.Settle)
				w.cluster.Events.Take()
				s.cycle()
				said := s.podSays("p0") == `PodGroupNotFound: PodGroup "g" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
				if said == late {
					t.Errorf("the pod says %q", s.podSays("p0"))
				}
				told := strings.Contains(strings.Join(w.cluster.Events.Take(), "\n"), `Warning FailedScheduling p0: PodGroup "g"`)
				if told == late {
					t.Errorf("an event told of it: %v", told)
				}
			})
		})
	}
}

// TestAGangThatIsNotLetInIsToldOnce although a plugin has an event of its own, of the same reason.
func TestAGangThatIsNotLetInIsToldOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add(nodeOf8(0).Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupPending).
			MinResources(schedtest.Resources{"nvidia.com/gpu": "64"}).Obj(), members(1, "1")[0].Obj())
		s := newSessions(w, explainConf("overcommit"))
		told := map[string]int{}
		for range 5 {
			s.cycle()
			for event, n := range count(w.cluster.Events.Take()) {
				told[event] += n
			}
			w.sync("p0")
			w.deliver(w.cluster.PodGroup("g"))
		}
		if len(told) != 3 {
			t.Errorf("want an event of the plugin, one of the PodGroup and one of the pod, got %v", told)
		}
		for event, n := range told {
			if n != 1 {
				t.Errorf("told %d times: %s", n, event)
			}
		}
	})
}
