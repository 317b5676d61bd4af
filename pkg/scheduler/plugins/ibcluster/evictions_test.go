// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcreclaim "volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// vip returns a pending pod of gang g with a high priority.
func vip(index, cpu string) *schedtest.PodBuilder {
	return member("g/"+index, "").Req(schedtest.Resources{"cpu": cpu}).Priority(100)
}

func vips(cpu string, indexes ...string) []*v1.Pod {
	var pods []*v1.Pod
	for _, index := range indexes {
		pods = append(pods, vip(index, cpu).Obj())
	}
	return pods
}

func TestEstimate(t *testing.T) {
	with := func(changes ...func(*v1.Node)) []*v1.Node {
		list := nodes("a1 ib-a", "a2 ib-a")
		for i, change := range changes {
			change(list[i])
		}
		return list
	}
	plain := func(*v1.Node) {}
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	tainted := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} }
	soft := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectPreferNoSchedule}} }
	evicting := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}} }
	tolerant := vip("0", "4").Obj()
	tolerant.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	stubborn := big("f/0", "a1", "4")
	stubborn.Annotations[v1beta1.PodPreemptable] = "false"
	keeps := schedtest.MakeQueue().Name("keeps").Obj()
	keeps.Spec.Reclaimable = new(bool)
	tests := map[string]struct {
		nodes     []*v1.Node
		minMember int32
		pods      []*v1.Pod
		reclaim   bool
		want      cost
	}{
		"nothing in the way":                               {pods: vips("4", "0", "1")},
		"a pod on each node":                               {pods: append(vips("4", "0", "1"), big("f/0", "a1", "4"), big("f/1", "a2", "4")), want: cost{evictions: 2}},
		"as many pods as it takes":                         {pods: append(vips("3", "0"), big("f/0", "a1", "1"), big("f/1", "a1", "1"), big("f/2", "a1", "1"), big("f/3", "a2", "4"), big("f/4", "a1", "1")), want: cost{evictions: 1}},
		"the node that gives up fewest":                    {pods: append(vips("4", "0"), big("f/0", "a1", "2"), big("f/1", "a1", "2"), big("f/2", "a2", "4")), want: cost{evictions: 1}},
		"several members for one eviction":                 {pods: append(vips("1", "0", "1", "2", "3"), big("f/0", "a1", "4"), big("f/1", "a2", "4")), want: cost{evictions: 1}},
		"what the first took makes its node the dearer":    {pods: append(vips("1", "0", "1"), big("f/0", "a1", "2"), big("f/1", "a1", "1"), big("f/2", "a2", "3"))},
		"more members than fit":                            {pods: append(vips("4", "0", "1", "2"), big("f/0", "a1", "4")), want: cost{short: 1, evictions: 1}},
		"members beyond the minimum do not count":          {minMember: 1, pods: append(vips("4", "0", "1", "2"), big("f/0", "a1", "4"), big("f/1", "a2", "4")), want: cost{evictions: 1}},
		"members of two sizes":                             {pods: append(append(vips("4", "0"), vips("1", "1")...), big("f/0", "a1", "4"), big("f/1", "a2", "2"), big("f/2", "a2", "1")), want: cost{evictions: 1}},
		"a pod that may not go":                            {pods: append(vips("4", "0", "1"), stubborn), want: cost{short: 1}},
		"a pod of the same priority":                       {pods: append(vips("4", "0", "1"), member("peer/0", "a1").Req(schedtest.Resources{"cpu": "4"}).Obj()), want: cost{short: 1}},
		"a pod of another queue":                           {pods: append(vips("4", "0", "1"), big("far/0", "a1", "4")), want: cost{short: 1}},
		"a cordoned node":                                  {nodes: with(cordoned), pods: vips("4", "0", "1"), want: cost{short: 1}},
		"a tainted node":                                   {nodes: with(plain, tainted), pods: vips("4", "0", "1"), want: cost{short: 1}},
		"a taint that evicts":                              {nodes: with(plain, evicting), pods: vips("4", "0", "1"), want: cost{short: 1}},
		"a taint that only dissuades":                      {nodes: with(plain, soft), pods: vips("4", "0", "1")},
		"taints that are tolerated":                        {nodes: with(tainted, cordoned), pods: []*v1.Pod{tolerant, vip("1", "4").Obj()}, want: cost{short: 1}},
		"a first member that asks for nothing":             {pods: []*v1.Pod{vip("0", "0").Req(nil).Obj(), vip("1", "4").Obj(), big("f/0", "a1", "4"), big("f/1", "a2", "4")}, want: cost{evictions: 1}},
		"a node selector":                                  {pods: []*v1.Pod{vip("0", "4").NodeSelector("rack", "r").Obj()}, want: cost{short: 1}},
		"a gated member is not placed":                     {pods: append(vips("4", "0"), vip("1", "4").Gate("wait").Obj(), big("f/0", "a1", "4"), big("f/1", "a2", "4")), want: cost{evictions: 1}},
		"reclaim":                                          {reclaim: true, pods: append(vips("4", "0", "1"), big("far/0", "a1", "4"), big("far/1", "a2", "4")), want: cost{evictions: 2}},
		"reclaim of the same queue":                        {reclaim: true, pods: append(vips("4", "0"), big("f/0", "a1", "4"), big("f/1", "a2", "4")), want: cost{short: 1}},
		"reclaim of a queue that gives nothing back":       {reclaim: true, pods: append(vips("4", "0", "1"), big("keeps/0", "a1", "4"), big("far/0", "a2", "4")), want: cost{short: 1, evictions: 1}},
		"reclaim takes one at least":                       {reclaim: true, pods: append(vips("1", "0"), big("far/0", "a1", "1")), want: cost{evictions: 1}},
		"reclaim looks at no node with nothing to reclaim": {reclaim: true, pods: append(vips("1", "0", "1"), big("far/0", "a1", "1")), want: cost{short: 1, evictions: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.nodes == nil {
				tt.nodes = with()
			}
			if tt.minMember == 0 {
				tt.minMember = 10
			}
			f := open(t, sessiontest.ClusterSpec{
				Nodes: tt.nodes, PriorityClasses: classes(), Pods: tt.pods, Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("far").Obj(), keeps},
				PodGroups: []*v1beta1.PodGroup{
					gang("g", tt.minMember, "mode=required").PriorityClass("high").Obj(),
					filler("f").Obj(), filler("far").Queue("far").Obj(), filler("keeps").Queue("keeps").Obj(),
					gang("peer", 0).PriorityClass("high").Obj(),
				},
			})
			action := preemptAction
			if tt.reclaim {
				action = reclaimAction
			}
			s := f.plugin.session
			got := s.newEstimate(f.job("g"), action).of(s.forest.Find("ib-a"))
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(cost{})); diff != "" {
				t.Errorf("cost (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGangIsNominatedToOneCluster: an action that evicts pods for one member after another evicts in one cluster for
// all of them: the cluster that needs the fewest evictions.
func TestGangIsNominatedToOneCluster(t *testing.T) {
	tests := map[string]struct {
		action vcframework.Action
		queue  string
	}{
		"preempt": {action: vcpreempt.New(), queue: schedtest.Queue},
		"reclaim": {action: vcreclaim.New(), queue: "far"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for range 10 { // upstream visits nodes in no order
				f := open(t, sessiontest.ClusterSpec{
					Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "c1 ib-c", "c2 ib-c", "x"), PriorityClasses: classes(),
					Queues:    []*v1beta1.Queue{schedtest.MakeQueue().Name("far").Obj()},
					PodGroups: []*v1beta1.PodGroup{gang("g", 2, "mode=required").PriorityClass("high").Obj(), filler("f").Queue(tt.queue).Obj()},
					Pods: append(vips("4", "0", "1"),
						big("f/0", "a1", "4"), big("f/1", "a2", "2"), big("f/2", "a2", "2"),
						big("f/3", "b1", "4"), big("f/4", "b2", "4"),
						big("f/5", "c1", "4"), // c2 has no pod that may be evicted, and no room
						member("other/0", "c2").Req(schedtest.Resources{"cpu": "4"}).Obj(), big("f/6", "x", "4")),
				})
				f.admitted("g/0") // a result for allocate must not be used for actions that evict
				f.session.Run(tt.action)
				if diff := cmp.Diff(map[string]string{"ns/g-0": "b", "ns/g-1": "b"}, clustersOf(f.session.Pipelined())); diff != "" {
					t.Fatalf("clusters of the nominations (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"ns/f-3", "ns/f-4"}, sorted(f.session.Evicts())); diff != "" {
					t.Fatalf("evicted (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestEvictionsGoOnElsewhere: the estimate does not call all filters. If evictions in a cluster were not possible, the
// next session tries the next cluster, and the first one again after all were tried.
func TestEvictionsGoOnElsewhere(t *testing.T) {
	beside := v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "friend"}}, TopologyKey: v1.LabelHostname,
	}}}}
	spec := func(friend string) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: nodes("a1 ib-a", "b1 ib-b", "c1 ib-c"), PriorityClasses: classes(),
			PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").PriorityClass("high").Obj(), filler("f").Obj(), gang("friend", 1).Obj()},
			Pods: []*v1.Pod{
				vip("0", "3").Affinity(beside).Obj(), member("friend/0", friend).Label("app", "friend").Obj(),
				big("f/0", "a1", "3"), big("f/1", "b1", "2"), big("f/2", "b1", "1"), big("f/3", "c1", "1"), big("f/4", "c1", "1"), big("f/5", "c1", "1"),
			},
		}
	}
	f := open(t, spec("c1"))
	var targets []string
	for range 4 {
		f.session.Run(vcpreempt.New())
		for _, group := range f.plugin.session.targets {
			targets = append(targets, group.Path())
		}
		if len(f.session.Pipelined()) > 0 {
			break
		}
		f.reopen(t, nil)
	}
	if diff := cmp.Diff([]string{"ib-a", "ib-b", "ib-c"}, targets); diff != "" {
		t.Errorf("clusters in which evictions were tried (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"ns/g-0": "c1"}, f.session.Pipelined()); diff != "" {
		t.Errorf("nominations (-want +got):\n%s", diff)
	}
	f.reopen(t, nil)
	if len(f.plugin.memory.tried) > 0 {
		t.Errorf("tried clusters remain after the evictions succeeded: %v", f.plugin.memory.tried)
	}
}

// TestTriedIsForgotten checks that a gang for which preempt has tried every cluster is tried in the first cluster
// again, and that no record of deleted gangs remains. A reload of the configuration keeps the record of tried clusters.
func TestTriedIsForgotten(t *testing.T) {
	spec := sessiontest.ClusterSpec{
		Nodes: two(), PriorityClasses: classes(), Pods: append(vips("5", "0"), big("f/0", "a1", "4")),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").PriorityClass("high").Obj(), filler("f").Obj()},
	}
	f := open(t, spec)
	var targets []string
	for range 4 {
		f.session.Run(vcpreempt.New())
		for _, group := range f.plugin.session.targets {
			targets = append(targets, group.Path())
		}
		f.reload(t, nil)
	}
	if diff := cmp.Diff([]string{"ib-a", "ib-b", "ib-a", "ib-b"}, targets); diff != "" {
		t.Errorf("clusters in which evictions were tried (-want +got):\n%s", diff)
	}
	spec.Pods, spec.PodGroups = nil, nil
	f.reopen(t, &spec)
	f.reopen(t, nil)
	if len(f.plugin.memory.tried) > 0 {
		t.Errorf("tried clusters remain of a deleted gang: %v", f.plugin.memory.tried)
	}
}

// TestLauncherDoesNotDecideWhereEvictionsHappen: backfill places a best-effort member while the other members wait. It
// is not bound there, so evictions for the gang happen in a cluster where they are possible.
func TestLauncherDoesNotDecideWhereEvictionsHappen(t *testing.T) {
	nodes := nodes("a1 ib-a", "b1 ib-b")
	// The taint makes backfill choose the other node.
	nodes[1].Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectPreferNoSchedule}}
	f := open(t, sessiontest.ClusterSpec{
		Nodes: nodes, PriorityClasses: classes(),
		PodGroups: []*v1beta1.PodGroup{
			gang("g", 2, "mode=required").PriorityClass("high").Obj(), filler("f").Obj(), gang("peer", 1).PriorityClass("high").Obj(),
		},
		Pods: []*v1.Pod{
			vip("launcher", "0").Req(nil).Obj(), vip("worker", "4").Obj(),
			member("peer/0", "a1").Req(schedtest.Resources{"cpu": "4"}).Obj(), big("f/0", "b1", "4"),
		},
	})
	f.session.Run(vcbackfill.New())
	if got := f.task("g/launcher"); got.NodeName != "a1" {
		t.Fatalf("backfill placed the launcher on %q, but the test needs it on a1", got.NodeName)
	}
	f.session.Run(vcpreempt.New())
	if diff := cmp.Diff([]string{"ns/f-0"}, f.session.Evicts()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}
