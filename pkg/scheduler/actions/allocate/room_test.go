// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// leaving returns terminating pods, whose resources on the node are being released.
func leaving(node, cpu string, names ...string) []*v1.Pod {
	return each(schedtest.MakePod().Group("old").Req(cores(cpu)).Phase(v1.PodRunning).Node(node).Terminating(), names...)
}

func TestRoomThatIsBecomingFree(t *testing.T) {
	member := func(group string) *schedtest.PodBuilder { return schedtest.MakePod().Group(group).Req(cores("1")) }
	old := schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()
	high := []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 100)}
	runTable(t, map[string]behaviour{
		"a pod waits on the node where room is becoming free": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1"),
				PodGroups: []*v1beta1.PodGroup{old, schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      append(leaving("n1", "1", "old-0"), each(member("g"), "g-0")...),
			},
			pipelined: map[string]string{"g-0": "n1"},
		},
		"free room comes before room that is becoming free": {
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(holds("16"), "n1"), nodes(holds("1"), "n2")...),
				PodGroups: []*v1beta1.PodGroup{old, schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      append(leaving("n1", "16", "old-0"), each(member("g"), "g-0")...),
			},
			binds: map[string]string{"g-0": "n2"},
		},
		"a gang with one member that must wait is not bound": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{old, schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      append(leaving("n1", "1", "old-0"), each(member("g"), "g-0", "g-1")...),
			},
			pipelined: map[string]string{"g-1": "n1"},
		},
		"a waiting gang holds its room against those that come after it": {
			world: sessiontest.ClusterSpec{
				Nodes:           nodes(holds("1"), "n1", "n2"),
				PriorityClasses: high,
				PodGroups: []*v1beta1.PodGroup{
					old, schedtest.MakePodGroup().Name("g").MinMember(2).PriorityClass("high").Obj(), schedtest.MakePodGroup().Name("h").Obj(),
				},
				Pods: slices.Concat(leaving("n1", "1", "old-0"), each(member("g"), "g-0", "g-1"), each(member("h"), "h-0")),
			},
			pipelined: map[string]string{"g-1": "n1"},
		},
		"a gang that would not fit even then holds nothing": {
			world: sessiontest.ClusterSpec{
				Nodes:           nodes(holds("1"), "n1", "n2"),
				PriorityClasses: high,
				PodGroups: []*v1beta1.PodGroup{
					old, schedtest.MakePodGroup().Name("g").MinMember(3).PriorityClass("high").Obj(), schedtest.MakePodGroup().Name("h").Obj(),
				},
				Pods: slices.Concat(leaving("n1", "1", "old-0"), each(member("g"), "g-0", "g-1", "g-2"), each(member("h"), "h-0")),
			},
			binds: map[string]string{"h-0": "n2"},
		},
		"what a gang wants above its minimum does not wait": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{old, schedtest.MakePodGroup().Name("g").MinMember(1).Obj()},
				Pods:      append(leaving("n1", "1", "old-0"), each(member("g"), "g-0", "g-1")...),
			},
			binds:     map[string]string{"g-0": "n2"},
			pipelined: map[string]string{"g-1": "n1"},
		},
	})
}

func TestNominatedNodes(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("1")) }
	group := []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()}
	runTable(t, map[string]behaviour{
		"a pod goes to its nominated node, however it scores": {
			world: sessiontest.ClusterSpec{
				Nodes: append(nodes(holds("16"), "n1"), nodes(holds("1"), "n2")...), PodGroups: group,
				Pods: each(member().Nominated("n2"), "g-0"),
			},
			binds: map[string]string{"g-0": "n2"},
		},
		"a nominated node without room is passed over": {
			world: sessiontest.ClusterSpec{
				Nodes: append(nodes(holds("1"), "n1"), nodes(holds("500m"), "n2")...), PodGroups: group,
				Pods: each(member().Nominated("n2"), "g-0"),
			},
			binds: map[string]string{"g-0": "n1"},
		},
		"a nominated node that a predicate refuses is passed over": {
			world: sessiontest.ClusterSpec{
				Nodes: append(nodes(holds("1"), "n1"), nodes(holds("4").Cordon(), "n2")...), PodGroups: group,
				Pods: each(member().Nominated("n2"), "g-0"),
			},
			binds: map[string]string{"g-0": "n1"},
		},
		"a nominated node that is gone is passed over": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1"), PodGroups: group,
				Pods: each(member().Nominated("n2"), "g-0"),
			},
			binds: map[string]string{"g-0": "n1"},
		},
		"a pod waits for the room made for it, although there is other room": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("1"), "n1", "n2"), PodGroups: group,
				Pods: append(leaving("n2", "1", "old-0"), each(member().Nominated("n2"), "g-0")...),
			},
			pipelined: map[string]string{"g-0": "n2"},
		},
		"equal pods with different nominations go each to its own": {
			world: sessiontest.ClusterSpec{
				Nodes: nodes(holds("4"), "n1", "n2", "n3"), PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).Obj()},
				Pods: slices.Concat(each(member().Nominated("n3"), "g-0"), each(member().Nominated("n2"), "g-1"), each(member().Nominated("n3"), "g-2")),
			},
			binds: map[string]string{"g-0": "n3", "g-1": "n2", "g-2": "n3"},
		},
	})
}
