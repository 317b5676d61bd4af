// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// shares orders queues by their allocated resources and does not limit them.
var shares = strings.ReplaceAll(plain, "- name: proportion", "- name: proportion\n    enabledAllocatable: false")

func TestQueues(t *testing.T) {
	queues := []*v1beta1.Queue{schedtest.MakeQueue().Name("q1").Obj(), schedtest.MakeQueue().Name("q2").Obj()}
	group := func(name, queue string) *v1beta1.PodGroup {
		return schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(0).Obj()
	}
	member := func(group, cpu string) *schedtest.PodBuilder { return schedtest.MakePod().Group(group).Req(cores(cpu)) }
	running := func(group, cpu, node string) *schedtest.PodBuilder {
		return member(group, cpu).Phase(v1.PodRunning).Node(node)
	}
	runTable(t, map[string]behaviour{
		"two queues of equal weight get a half each": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1"), group("b", "q2")},
				Pods:      slices.Concat(each(member("a", "1"), "a-0", "a-1"), each(member("b", "1"), "b-0", "b-1")),
			},
			binds: map[string]string{"a-0": "n1", "b-0": "n1"},
		},
		"weights say how much each gets": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				Queues:    []*v1beta1.Queue{schedtest.MakeQueue().Name("q1").Weight(3).Obj(), schedtest.MakeQueue().Name("q2").Weight(1).Obj()},
				PodGroups: []*v1beta1.PodGroup{group("a", "q1"), group("b", "q2")},
				Pods: slices.Concat(each(member("a", "1"), "a-0", "a-1", "a-2", "a-3"),
					each(member("b", "1"), "b-0", "b-1", "b-2", "b-3")),
			},
			binds: map[string]string{"a-0": "n1", "a-1": "n1", "a-2": "n1", "b-0": "n1"},
		},
		"what one queue does not want goes to the other": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1"), group("b", "q2")},
				Pods:      slices.Concat(each(member("a", "1"), "a-0"), each(member("b", "1"), "b-0", "b-1", "b-2")),
			},
			binds: map[string]string{"a-0": "n1", "b-0": "n1", "b-1": "n1", "b-2": "n1"},
		},
		"a queue whose gang fits nowhere does not hold up the other": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1"), group("b", "q2")},
				Pods:      slices.Concat(each(member("a", "3"), "a-0"), each(member("b", "1"), "b-0")),
			},
			binds: map[string]string{"b-0": "n1"},
		},
		"a queue at its capability gets no more, and its gang is not bound in part": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("8"), "n1"),
				Queues: []*v1beta1.Queue{
					schedtest.MakeQueue().Name("q1").Capability(schedtest.Resources{"cpu": "2", "memory": "1Gi", "pods": "10"}).Obj(), schedtest.MakeQueue().Name("q2").Obj(),
				},
				PodGroups: []*v1beta1.PodGroup{
					group("a", "q1"), schedtest.MakePodGroup().Name("b").Queue("q1").MinMember(2).Obj(),
				},
				Pods: slices.Concat(each(running("a", "1", "n1"), "a-0"), each(member("b", "1"), "b-0", "b-1")),
			},
		},
		"the queue that holds less goes first": {
			conf: shares,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("5"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("old", "q1"), group("a", "q1"), group("b", "q2")},
				Pods:      slices.Concat(each(running("old", "1", "n1"), "old-0"), each(member("a", "2"), "a-0"), each(member("b", "3"), "b-0")),
			},
			binds: map[string]string{"b-0": "n1"},
		},
		"a queue's place is computed again after each gang": {
			conf: shares,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("5"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("old", "q1"), group("a", "q1"), group("b", "q2"), group("c", "q2")},
				Pods: slices.Concat(each(running("old", "1", "n1"), "old-0"), each(member("a", "2"), "a-0"),
					each(member("b", "2"), "b-0"), each(member("c", "2"), "c-0")),
			},
			binds: map[string]string{"a-0": "n1", "b-0": "n1"},
		},
		"a gang without pending pods does not hold up its queue": {
			conf: shares,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("5"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("old", "q1"), group("a", "q1")},
				Pods:      slices.Concat(each(running("old", "1", "n1"), "old-0"), each(member("a", "2"), "a-0")),
			},
			binds: map[string]string{"a-0": "n1"},
		},
	})
}

func TestShards(t *testing.T) {
	pod := each(schedtest.MakePod().Group("g").Req(cores("1")), "g-0")
	group := []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()}
	sizes := slices.Concat(nodes(holds("10"), "n1"), nodes(holds("2"), "n2"), nodes(holds("20"), "n3"), nodes(holds("5"), "n4"))
	hard := func(names ...string) *sessiontest.Shard { return &sessiontest.Shard{Mode: "hard", Nodes: names} }
	soft := func(names ...string) *sessiontest.Shard { return &sessiontest.Shard{Mode: "soft", Nodes: names} }
	// The emptiest node, n3, has the best score.
	runTable(t, map[string]behaviour{
		"without sharding the best node is taken": {
			world: sessiontest.ClusterSpec{Nodes: sizes, PodGroups: group, Pods: pod},
			binds: map[string]string{"g-0": "n3"},
		},
		"hard: the best node of the shard is taken": {
			world: sessiontest.ClusterSpec{Nodes: sizes, PodGroups: group, Pods: pod, Shard: hard("n1", "n4")},
			binds: map[string]string{"g-0": "n1"},
		},
		"hard: a pod that fits none of the shard waits": {
			world: sessiontest.ClusterSpec{
				Nodes: sizes, PodGroups: group, Shard: hard("n1", "n4"),
				Pods: each(schedtest.MakePod().Group("g").Req(cores("15")), "g-0"),
			},
		},
		"hard: a nominated node outside of the shard is passed over": {
			world: sessiontest.ClusterSpec{
				Nodes: sizes, PodGroups: group, Shard: hard("n1", "n4"),
				Pods: each(schedtest.MakePod().Group("g").Req(cores("1")).Nominated("n3"), "g-0"),
			},
			binds: map[string]string{"g-0": "n1"},
		},
		"soft: the best node of the shard is taken before better ones": {
			world: sessiontest.ClusterSpec{Nodes: sizes, PodGroups: group, Pods: pod, Shard: soft("n1", "n4")},
			binds: map[string]string{"g-0": "n1"},
		},
		"soft: of equal nodes that of the shard is taken": {
			world: sessiontest.ClusterSpec{Nodes: nodes(holds("10"), "n1", "n2", "n3"), PodGroups: group, Pods: pod, Shard: soft("n2")},
			binds: map[string]string{"g-0": "n2"},
		},
		"soft: a pod that fits none of the shard goes elsewhere": {
			world: sessiontest.ClusterSpec{
				Nodes: sizes, PodGroups: group, Shard: soft("n1", "n4"),
				Pods: each(schedtest.MakePod().Group("g").Req(cores("15")), "g-0"),
			},
			binds: map[string]string{"g-0": "n3"},
		},
		"soft: free room elsewhere comes before room becoming free in the shard": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1", "n2"), PodGroups: group, Shard: soft("n1"),
				Pods: append(leaving("n1", "1", "old-0"), pod...),
			},
			binds: map[string]string{"g-0": "n2"},
		},
		"soft: of rooms becoming free that in the shard is waited for": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1", "n2"), PodGroups: group, Shard: soft("n2"),
				Pods: slices.Concat(leaving("n1", "1", "old-0"), leaving("n2", "1", "old-1"), pod),
			},
			pipelined: map[string]string{"g-0": "n2"},
		},
	})
}
