// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestRoles: Roles of one gang request nodes of different zones, so a lack of room for one role does not affect the
// other.
func TestRoles(t *testing.T) {
	leader := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Role("leader").NodeSelector("zone", "x").Req(cores("1"))
	}
	worker := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Role("worker").NodeSelector("zone", "y").Req(cores("1"))
	}
	zone := func(name, cpu string) *schedtest.NodeBuilder { return holds(cpu).Label("zone", name) }
	runTable(t, map[string]behaviour{
		"a role that fits nowhere does not keep another from the gang's minimum": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(zone("y", "4"), "y1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      append(each(leader(), "g-leader-0"), each(worker(), "g-worker-0")...),
			},
			binds: map[string]string{"g-worker-0": "y1"},
		},
		"every role gets its minimum although none gets all": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(zone("x", "1"), "x1"), nodes(zone("y", "1"), "y1")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("leader", 1).MinTaskMember("worker", 1).Obj()},
				Pods:      append(each(leader(), "g-leader-0", "g-leader-1"), each(worker(), "g-worker-0", "g-worker-1")...),
			},
			binds: map[string]string{"g-leader-0": "x1", "g-worker-0": "y1"},
		},
		"a role short of its minimum keeps the gang out, however many of the other fit": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(zone("x", "1"), "x1"), nodes(zone("y", "4"), "y1")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("leader", 2).MinTaskMember("worker", 0).Obj()},
				Pods:      append(each(leader(), "g-leader-0", "g-leader-1"), each(worker(), "g-worker-0", "g-worker-1")...),
			},
		},
		"roles whose sum exceeds minMember are no minima": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(zone("y", "4"), "y1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("leader", 1).MinTaskMember("worker", 2).Obj()},
				Pods:      append(each(leader(), "g-leader-0"), each(worker(), "g-worker-0", "g-worker-1")...),
			},
			binds: map[string]string{"g-worker-0": "y1", "g-worker-1": "y1"},
		},
		"roles count in a gang that names its tier, too": {
			conf: topological,
			world: sessiontest.ClusterSpec{
				Nodes: nodes(zone("y", "4"), "a1", "a2", "b1", "b2"), HyperNodes: oneRow,
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).MinTaskMember("leader", 1).MinTaskMember("worker", 2).
					TopologyByName(v1beta1.SoftNetworkTopologyMode, "nobody's").Obj()},
				Pods: append(each(leader(), "g-leader-0"), each(worker(), "g-worker-0", "g-worker-1")...),
			},
			upstreamDiffers: "it takes a job whose tier has no known name for one without topology, or not at all",
		},
		"members that run count for their role": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(zone("x", "1"), "x1"), nodes(zone("y", "1"), "y1")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("leader", 1).MinTaskMember("worker", 1).Obj()},
				Pods:      append(each(leader().Phase(v1.PodRunning).Node("x1"), "g-leader-0"), each(worker(), "g-worker-0")...),
			},
			binds: map[string]string{"g-worker-0": "y1"},
		},
		"with the error cache off, pods of one role are judged each by itself": {
			conf: "configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: false\n" + plain,
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(zone("x", "1"), "x1"), nodes(zone("y", "1"), "y1")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      append(each(leader().Role("any"), "g-any-0"), each(worker().Role("any"), "g-any-1")...),
			},
			binds: map[string]string{"g-any-0": "x1", "g-any-1": "y1"},
		},
	})
}

// TestRolesThatExcludeEachOther: Members that may not share a node leave a node to the role that is last in task
// order.
func TestRolesThatExcludeEachOther(t *testing.T) {
	apart := v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "g"}}},
	}}}
	member := func(role string) *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Role(role).Label("of", "g").Affinity(apart).Req(cores("1"))
	}
	runTable(t, map[string]behaviour{
		"the minimum is placed": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(holds("3"), "n1", "n2"), nodes(holds("1"), "n3", "n4")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).MinTaskMember("worker", 1).MinTaskMember("leader", 1).Obj()},
				Pods: append(each(member("worker"), "g-worker-0", "g-worker-1", "g-worker-2", "g-worker-3"),
					each(member("leader").Req(cores("3")), "g-leader-9")...),
			},
			binds:           map[string]string{"g-leader-9": "n1|n2", "g-worker-0": "*", "g-worker-1": "*", "g-worker-2": "*"},
			upstreamDiffers: "it tries one order, that of the pods",
		},
	})
}

// TestChoiceOfMembers checks that a gang that does not need all of its tasks is placed with the tasks that fit,
// whichever these are.
func TestChoiceOfMembers(t *testing.T) {
	sized := func(cpus ...string) (pods []*v1.Pod) {
		for i, cpu := range cpus {
			pods = append(pods, schedtest.MakePod().Name(fmt.Sprintf("g-%d", i)).Group("g").Req(cores(cpu)).Obj())
		}
		return pods
	}
	runTable(t, map[string]behaviour{
		"one that fits nowhere is left out": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(holds("6"), "n6"), nodes(holds("4"), "n4")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      sized("9", "3", "5"),
			},
			binds: map[string]string{"g-1": "n4", "g-2": "n6"}, upstreamDiffers: "it stops at the first, or puts the small one in the large one's way",
		},
		"roles get their minimum": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(holds("6"), "n6"), nodes(holds("3"), "n3")...), // Three workers leave no room for the leader.
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).MinTaskMember("leader", 1).MinTaskMember("worker", 2).Obj()},
				Pods: slices.Concat(each(schedtest.MakePod().Group("g").Role("worker").Req(cores("9")), "g-worker-0"), each(schedtest.MakePod().Group("g").Role("leader").Req(cores("1")), "g-leader-0"),
					each(schedtest.MakePod().Group("g").Role("worker").Req(cores("3")), "g-worker-1", "g-worker-2", "g-worker-3")),
			},
			binds:           map[string]string{"g-leader-0": "*", "g-worker-1": "*", "g-worker-2": "*"},
			upstreamDiffers: "a member of a role that fits nowhere stops all of the role",
		},
	})
}

// TestMembersThatNeedNoNode checks that members that allocate need not place count for their role's minimum, even if
// the other members fit only when they are packed.
func TestMembersThatNeedNoNode(t *testing.T) {
	role := func(name, cpu string) *schedtest.PodBuilder {
		return schedtest.MakePod().Group("g").Role(name).Req(cores(cpu))
	}
	world := func(launcher *schedtest.PodBuilder) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: nodes(holds("6"), "n1", "n2"), // Both leaders fit on one node, and three workers on the other.
			PodGroups: []*v1beta1.PodGroup{
				schedtest.MakePodGroup().Name("g").MinMember(6).MinTaskMember("launcher", 1).MinTaskMember("leader", 2).MinTaskMember("worker", 3).Obj(),
			},
			Pods: slices.Concat(each(launcher.Group("g").Role("launcher"), "g-launcher-0"), each(role("extra", "9"), "g-extra-0"),
				each(role("leader", "3"), "g-leader-0", "g-leader-1"), each(role("worker", "2"), "g-worker-0", "g-worker-1", "g-worker-2")),
		}
	}
	cases := map[string]behaviour{
		"one that has succeeded":       {world: world(schedtest.MakePod().Req(cores("1")).Node("n1").Phase(v1.PodSucceeded))},
		"one that is left to backfill": {world: world(schedtest.MakePod())},
		"one that runs":                {world: world(schedtest.MakePod().Node("n1").Phase(v1.PodRunning))},
	}
	for name, tc := range cases {
		tc.binds = map[string]string{"g-leader-0": "*", "g-leader-1": "*", "g-worker-0": "*", "g-worker-1": "*", "g-worker-2": "*"}
		tc.upstreamDiffers = "it tries one order, that of the pods"
		cases[name] = tc
	}
	runTable(t, cases)
}

func TestOrder(t *testing.T) {
	member := func(group string) *schedtest.PodBuilder { return schedtest.MakePod().Group(group).Req(cores("1")) }
	high := []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 100)}
	runTable(t, map[string]behaviour{
		"the gang of higher priority goes first": {
			world: sessiontest.ClusterSpec{
				Nodes:           nodes(holds("2"), "n1"),
				PriorityClasses: high,
				PodGroups: []*v1beta1.PodGroup{
					schedtest.MakePodGroup().Name("a").MinMember(2).Obj(),
					schedtest.MakePodGroup().Name("b").MinMember(2).PriorityClass("high").Obj(),
				},
				Pods: slices.Concat(each(member("a"), "a-0", "a-1"), each(member("b"), "b-0", "b-1")),
			},
			binds: map[string]string{"b-0": "n1", "b-1": "n1"},
		},
		"the pod of higher priority goes first in its gang": {
			world: sessiontest.ClusterSpec{
				Nodes:           nodes(holds("1"), "n1"),
				PriorityClasses: high,
				PodGroups:       []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("a").Obj()},
				Pods:            slices.Concat(each(member("a"), "a-0"), each(member("a").Priority(100), "a-1")),
			},
			binds: map[string]string{"a-1": "n1"},
		},
		"equal pods go by their index": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("a").Obj()},
				Pods:      each(member("a"), "a-worker-10", "a-worker-2", "a-worker-1"),
			},
			binds: map[string]string{"a-worker-1": "n1", "a-worker-2": "n1"},
		},
		"a gang that does not fit makes way for one that does": {
			world: sessiontest.ClusterSpec{
				Nodes:           nodes(holds("2"), "n1"),
				PriorityClasses: high,
				PodGroups: []*v1beta1.PodGroup{
					schedtest.MakePodGroup().Name("a").MinMember(1).Obj(),
					schedtest.MakePodGroup().Name("b").MinMember(3).PriorityClass("high").Obj(),
				},
				Pods: slices.Concat(each(member("a"), "a-0"), each(member("b"), "b-0", "b-1", "b-2")),
			},
			binds: map[string]string{"a-0": "n1"},
		},
		"gangs below their minimum go before what others want above theirs": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("3"), "n1"),
				PodGroups: []*v1beta1.PodGroup{
					schedtest.MakePodGroup().Name("a").MinMember(1).Obj(),
					schedtest.MakePodGroup().Name("b").MinMember(2).Obj(),
				},
				Pods: slices.Concat(each(member("a"), "a-0", "a-1", "a-2"), each(member("b"), "b-0", "b-1")),
			},
			binds: map[string]string{"a-0": "n1", "b-0": "n1", "b-1": "n1"},
		},
	})
}
