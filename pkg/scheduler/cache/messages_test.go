// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhyAGangWaits compares the message of each cause, which is the same on the PodGroup and on its pods.
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
			want: "Unschedulable NotEnoughResources: 0/1 members fit: 2 nodes short of nvidia.com/gpu; a member requests more than any node has: nvidia.com/gpu 16 of at most 8",
		},
		"a member asks for more than the cluster has, and its queue is idle": {
			plugins: []string{"proportion"}, objects: gpuNodes(2), group: minimum(1), pods: members(1, "20"),
			want: "Unschedulable NotEnoughResources: 0/1 members fit: 2 nodes short of nvidia.com/gpu; a member requests more than any node has: nvidia.com/gpu 20 of at most 8",
		},
		"one of its members asks for more than the cluster has": {
			plugins: []string{"proportion"}, objects: gpuNodes(2), group: minimum(3),
			pods: append(members(2, "1"), pod(2).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "20"})),
			want: "Unschedulable NotEnoughResources: 2/3 members fit: 1 node short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu); a member requests more than any node has: nvidia.com/gpu 20 of at most 8",
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
			want: "Scheduled tasks in gang are ready to be scheduled: the minimum is placed, 1 further member waits: 2 nodes short of nvidia.com/gpu; a member requests more than any node has: nvidia.com/gpu 16 of at most 8",
		},
		"its queue has reached its capability": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(5), other(), filler(0),
				schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"nvidia.com/gpu": "20"}).Obj()),
			group: minimum(2), pods: members(2, "8"),
			want: "Unschedulable QueueFull: 1/2 members fit: queue default has reached its capability: nvidia.com/gpu 16 of 20 in use, 8 requested",
		},
		"its queue is closed": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(1),
				schedtest.MakeQueue().Name(schedtest.Queue).State(v1beta1.QueueStateClosed).Obj()),
			group: minimum(1), pods: members(1, "1"),
			want: "Unschedulable QueueNotOpen: queue default is Closed and accepts no pods; have it opened, or use another queue",
		},
		"its queue does not exist": {
			objects: gpuNodes(1), group: minimum(1).Queue("nosuch"), pods: members(1, "1"),
			want: `Unschedulable QueueNotFound: queue "nosuch" does not exist; create it, or correct spec.queue`,
		},
		"its queue does not exist, and its pods are created when it is admitted": {
			objects: gpuNodes(1), group: minimum(1).Queue("nosuch").Phase(v1beta1.PodGroupPending),
			want: `Unschedulable QueueNotFound: queue "nosuch" does not exist; create it, or correct spec.queue`,
		},
		"its minResources are below 0": {
			objects: gpuNodes(1), group: minimum(1).MinResources(schedtest.Resources{"cpu": "-5"}), pods: members(1, "1"),
			want: "Unschedulable InvalidResources: spec.minResources[cpu] is -5, must be 0 or more",
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
			want: "Unschedulable SchedulingGated: 2 of 3 pods wait for scheduling gates: example.com/quota; minMember is 3",
		},
		"the only pod of a role has a scheduling gate": {
			objects: gpuNodes(1), group: minimum(2).MinTaskMember("worker", 1).MinTaskMember("launcher", 1), pods: []*schedtest.PodBuilder{
				members(1, "1")[0].Role("worker"), pod(1).Role("worker"), pod(2).Role("launcher").Gate("example.com/quota"),
			},
			want: `Unschedulable SchedulingGated: 1 of 1 pod of role "launcher" waits for scheduling gates: example.com/quota; minTaskMember of "launcher" is 1`,
		},
		"the cluster is promised to others": {
			plugins: []string{"overcommit"}, objects: gpuNodes(1),
			group: minimum(1).Phase(v1beta1.PodGroupPending).MinResources(schedtest.Resources{"nvidia.com/gpu": "64"}), pods: members(1, "1"),
			want: "Unschedulable NotEnqueued: not admitted by plugin overcommit: minResources asks for nvidia.com/gpu 64; the cluster has nvidia.com/gpu 8 (0 used)",
		},
		"its minResources exceed what is left of its queue": {
			plugins: []string{"capacity"}, objects: append(gpuNodes(2), schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"nvidia.com/gpu": "4"}).Obj()),
			group: minimum(1).Phase(v1beta1.PodGroupPending).MinResources(schedtest.Resources{"nvidia.com/gpu": "8"}), // Its pods are created when it is admitted.
			want:  "Unschedulable QueueFull: not admitted by plugin capacity: minResources asks for nvidia.com/gpu 8; queue default has reached its capability: nvidia.com/gpu 0 of 4 in use, 8 requested",
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
			withHarness(t, func(t *testing.T, w *harness) {
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
					t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
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
						t.Errorf("condition of pod %s (-want +got):\n%s", pod.Name, diff)
					}
				}
			})
		})
	}
}

// TestWhySessionsSkipAGang compares the messages on a PodGroup while its transaction fails, or while the bisector
// searches for an object that makes the scheduler panic.
func TestWhySessionsSkipAGang(t *testing.T) {
	got := map[string]string{}
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		undo := make(chan struct{})
		step := failing("bad", "p0")
		step.Rollback = blocking(undo)
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.mustPlace("n", nil, "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		got["its transaction fails"], _ = w.cache.Blocked(gang)
		close(undo)
		synctest.Wait()
		got["its transaction has failed"], _ = w.cache.Blocked(gang)
	})
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.add(pod(0).Node("n").Phase(v1.PodRunning).Obj(), schedtest.MakePodGroup().Name("a").Obj(), schedtest.MakePodGroup().Name("b").Obj())
		_, _, _ = w.cache.SessionSnapshot()
		w.cache.quarantine.CyclePanicked("", "oh no")
		_, _, _ = w.cache.SessionSnapshot()
		w.cache.quarantine.CycleSucceeded()
		_, _, _ = w.cache.SessionSnapshot()
		got["its queue is not seen as a whole"], _ = w.cache.Blocked("ns/a")
		got["a pod is to be evicted"] = fmt.Sprint(w.cache.Evict(taskNamed(w.cache, "p0"), "it must go"))
		w.cache.quarantine.CyclePanicked("ns/a", "oh no")
		got["it makes cycles panic"], _ = w.cache.Blocked("ns/a")
	})
	want := map[string]string{
		"its transaction fails":            "previous bind attempt failed; rollback in progress",
		"its transaction has failed":       "PreBindFailed: pre-bind plugin bad failed for pod ns/p0 on node n: it is broken; only 1 of minMember 2 can be bound, rolled back all 2 pods",
		"its queue is not seen as a whole": "scheduling of this queue is paused while the scheduler isolates an object that makes it panic",
		"a pod is to be evicted":           "evictions are paused while the scheduler isolates an object that makes it panic",
		"it makes cycles panic":            "Quarantined for up to 1m0s, or for 5s if it changes: oh no",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestInvalidHyperNodesAreIgnoredAndReported(t *testing.T) {
	leaf := schedtest.MakeHyperNode().Name("leaf").Nodes("n0").Obj()
	spine := schedtest.MakeHyperNode().Name("spine").Tier(2).HyperNodes("leaf").Obj()
	sound := map[string][]string{"leaf": {"n0"}, "spine": {"n0"}}
	const faulty = "Warning HyperNodeInvalid a: ignored: "
	tests := map[string]struct {
		hyperNodes []*topologyv1alpha1.HyperNode
		seen       map[string][]string
		told       []string
	}{
		"none": {seen: sound},
		"a member HyperNode by regular expression": {
			hyperNodes: []*topologyv1alpha1.HyperNode{member("a", "HyperNode", topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "x"}})},
			seen:       sound, told: []string{faulty + "spec.members[0]: a member of type HyperNode needs selector.exactMatch.name"},
		},
		"a member without a selector": {
			hyperNodes: []*topologyv1alpha1.HyperNode{member("a", "Node", topologyv1alpha1.MemberSelector{})}, seen: sound,
			told: []string{faulty + "spec.members[0]: the selector selects nothing; set exactMatch.name, regexMatch.pattern, or a labelMatch with matchLabels or matchExpressions"},
		},
		"a label selector that selects nothing": {
			hyperNodes: []*topologyv1alpha1.HyperNode{member("a", "Node", topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{}})}, seen: sound,
			told: []string{faulty + "spec.members[0]: the selector selects nothing; set exactMatch.name, regexMatch.pattern, or a labelMatch with matchLabels or matchExpressions"},
		},
		"a label selector that is none": {
			hyperNodes: []*topologyv1alpha1.HyperNode{member("a", "Node", topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Nonsense"}},
			}})}, seen: sound,
			told: []string{faulty + `spec.members[0]: selector.labelMatch must be a label selector: "Nonsense" is not a valid label selector operator`},
		},
		"a regular expression that is none": {
			hyperNodes: []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("a").Nodes("n1").NodesLike("(").NodesLike("[").Obj()}, seen: sound,
			told: []string{faulty + "spec.members[1]: selector.regexMatch.pattern must be a regular expression of Go: error parsing regexp: missing closing ): `(` (and 1 more)"},
		},
		"a type that is none": {
			hyperNodes: []*topologyv1alpha1.HyperNode{member("a", "Rack", topologyv1alpha1.MemberSelector{})}, seen: sound,
			told: []string{faulty + `spec.members[0]: type is "Rack", must be Node or HyperNode`},
		},
		"a member of itself": {
			hyperNodes: []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("a").Tier(2).HyperNodes("a").Obj()}, seen: sound,
			told: []string{faulty + `member HyperNode "a" is this HyperNode or contains it; members must not form a cycle`},
		},
		"a second parent that is younger": {
			hyperNodes: []*topologyv1alpha1.HyperNode{younger(schedtest.MakeHyperNode().Name("a").Tier(2).HyperNodes("leaf").Nodes("n1").Obj())}, seen: sound,
			told: []string{faulty + `member HyperNode "leaf" already belongs to HyperNode "spine"; a HyperNode can have one parent only`},
		},
		"a circle that the youngest closes": {
			hyperNodes: []*topologyv1alpha1.HyperNode{
				schedtest.MakeHyperNode().Name("b").Tier(4).HyperNodes("spine").Obj(), younger(schedtest.MakeHyperNode().Name("a").Tier(3).HyperNodes("b").Obj()),
				schedtest.MakeHyperNode().Name("leaf").Nodes("n0").HyperNodes("a").Obj(),
			},
			seen: map[string][]string{"leaf": {"n0"}, "spine": {"n0"}, "b": {"n0"}},
			told: []string{faulty + `member HyperNode "b" is this HyperNode or contains it; members must not form a cycle`},
		},
		"a member that is left out counts for no gang": {
			hyperNodes: []*topologyv1alpha1.HyperNode{
				schedtest.MakeHyperNode().Name("a").NodesLike("(").Obj(), schedtest.MakeHyperNode().Name("b").Tier(3).HyperNodes("a", "spine", "none").Nodes("n1").Obj(),
			},
			seen: map[string][]string{"leaf": {"n0"}, "spine": {"n0"}, "b": {"n0", "n1"}},
			told: []string{faulty + "spec.members[0]: selector.regexMatch.pattern must be a regular expression of Go: error parsing regexp: missing closing ): `(`"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				for _, hyperNode := range append([]*topologyv1alpha1.HyperNode{leaf, spine}, tt.hyperNodes...) {
					showHyperNode(w, hyperNode)
				}
				for range 3 {
					if diff := cmp.Diff(tt.seen, seenNodes(w)); diff != "" {
						t.Errorf("HyperNodes that sessions see (-want +got):\n%s", diff)
					}
				}
				snapshot := w.cache.Snapshot()
				if !snapshot.HyperNodesReadyToSchedule {
					t.Error("the HyperNodes are not ready")
				}
				for name, info := range snapshot.HyperNodes {
					for child := range info.Children {
						if snapshot.HyperNodes[child] == nil || snapshot.HyperNodes[child].Parent != name {
							t.Errorf("%s has the child %s, which does not have it as its parent", name, child)
						}
					}
				}
				if diff := cmp.Diff(tt.told, w.cluster.Events.Take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
