// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestGangsThatArePlacedFirst checks that a gang that a plugin selects is placed before all other gangs, whatever its
// queue. Only the members of its minimum go first, and no other gang of its queue.
func TestGangsThatArePlacedFirst(t *testing.T) {
	const upstream = "it places no gangs first"
	first := []framework.PluginSpec{plugin("first", nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "u" }))}
	const tier = "\n- plugins:\n  - name: first\n"
	conf := shares + tier
	// Queue q1 precedes q2 by name, since both use no resources.
	queues := []*v1beta1.Queue{schedtest.MakeQueue().Name("q1").Obj(), schedtest.MakeQueue().Name("q2").Obj()}
	group := func(name, queue string, minMember int32) *v1beta1.PodGroup {
		return schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(minMember).Obj()
	}
	members := func(group string, names ...string) []*v1.Pod {
		return each(schedtest.MakePod().Group(group).Req(cores("1")), names...)
	}
	runTable(t, map[string]behaviour{
		"it goes before a queue that comes first": {
			conf: conf, plugins: first, upstreamDiffers: upstream,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 2), group("u", "q2", 2)},
				Pods:      slices.Concat(members("a", "a-0", "a-1"), members("u", "u-0", "u-1")),
			},
			binds: map[string]string{"u-0": "n1", "u-1": "n1"},
		},
		"another gang of its queue does not": {
			conf: conf, plugins: first, upstreamDiffers: upstream,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 1), group("b", "q2", 1), group("u", "q2", 1)},
				Pods:      slices.Concat(members("a", "a-0"), members("b", "b-0"), members("u", "u-0")),
			},
			binds: map[string]string{"u-0": "n1", "a-0": "n1"},
		},
		"its further members do not": {
			conf: conf, plugins: first, upstreamDiffers: upstream,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("2"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 1), group("u", "q2", 1)},
				Pods:      slices.Concat(members("a", "a-0"), members("u", "u-0", "u-1")),
			},
			binds: map[string]string{"u-0": "n1", "a-0": "n1"},
		},
		"when it fits nowhere its queue has its usual place": {
			conf: conf, plugins: first, upstreamDiffers: upstream,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 1), group("b", "q2", 1), group("u", "q2", 5)},
				Pods:      slices.Concat(members("a", "a-0"), members("b", "b-0"), members("u", "u-0", "u-1", "u-2", "u-3", "u-4")),
			},
			binds: map[string]string{"a-0": "n1"},
		},
		"its queue's limit holds": {
			conf: plain + tier, plugins: first, upstreamDiffers: upstream,
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				Queues:    []*v1beta1.Queue{queues[0], schedtest.MakeQueue().Name("q2").Capability(schedtest.Resources{"cpu": "1", "memory": "1Gi", "pods": "10"}).Obj()},
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 1), group("u", "q2", 2)},
				Pods:      slices.Concat(members("a", "a-0"), members("u", "u-0", "u-1")),
			},
			binds: map[string]string{"a-0": "n1"},
		},
		"a plugin that panics calls nothing first": {
			conf: conf, plugins: []framework.PluginSpec{plugin("first", nothing, sessiontest.PlaceFirstFn(func(*api.JobInfo) bool { panic("test") }))},
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1"), Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("a", "q1", 1), group("u", "q2", 1)},
				Pods:      slices.Concat(members("a", "a-0"), members("u", "u-0")),
			},
			binds: map[string]string{"a-0": "n1"},
		},
	})
}

// TestTheOrderOfGangsThatArePlacedFirst checks the order of gangs that plugins select to be placed first: by the
// position of the plugin in the configuration, and then in the usual order of jobs.
func TestTheOrderOfGangsThatArePlacedFirst(t *testing.T) {
	first := func(by string, gangs ...string) framework.PluginSpec {
		return plugin(by, nothing, sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return slices.Contains(gangs, job.Name) }))
	}
	world := sessiontest.ClusterSpec{
		Nodes: nodes(holds("1"), "n1"), PriorityClasses: []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 10)},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("a").Obj(), schedtest.MakePodGroup().Name("b").Obj(), schedtest.MakePodGroup().Name("c").PriorityClass("high").Obj()},
		Pods: slices.Concat(each(schedtest.MakePod().Group("a").Req(cores("1")), "a-0"), each(schedtest.MakePod().Group("b").Req(cores("1")), "b-0"),
			each(schedtest.MakePod().Group("c").Priority(10).Req(cores("1")), "c-0")),
	}
	cases := map[string]behaviour{
		"the first plugin's gang": {plugins: []framework.PluginSpec{first("first", "b"), first("second", "a", "c")}, binds: map[string]string{"b-0": "n1"}},
		"of one plugin's gangs that of the highest priority": {
			plugins: []framework.PluginSpec{first("first", "a", "b", "c"), first("second")}, binds: map[string]string{"c-0": "n1"},
		},
		"of one plugin's gangs of one priority the first": {
			plugins: []framework.PluginSpec{first("first"), first("second", "b", "a")}, binds: map[string]string{"a-0": "n1"},
		},
	}
	for name, tc := range cases {
		tc.world, tc.conf, tc.upstreamDiffers = world, plain+"- plugins:\n  - name: first\n  - name: second\n", "it places no gangs first"
		cases[name] = tc
	}
	runTable(t, cases)
}
