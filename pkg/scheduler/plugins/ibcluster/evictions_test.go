// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"

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

// TestGangIsNominatedToOneCluster: pods are evicted for a gang in one cluster: the cluster that needs the fewest evictions.
func TestGangIsNominatedToOneCluster(t *testing.T) {
	for action, queue := range map[string]string{"preempt": schedtest.Queue, "reclaim": "far"} {
		t.Run(action, func(t *testing.T) {
			for range 10 { // maps have no order
				f := open(t, sessiontest.ClusterSpec{
					Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "c1 ib-c", "c2 ib-c", "x"), PriorityClasses: classes(),
					Queues:    []*v1beta1.Queue{schedtest.MakeQueue().Name("far").Obj()},
					PodGroups: []*v1beta1.PodGroup{gang("g", 2, "mode=required").PriorityClass("high").Obj(), filler("f").Queue(queue).Obj()},
					Pods: append(vips("4", "0", "1"),
						big("f/0", "a1", "4"), big("f/1", "a2", "2"), big("f/2", "a2", "2"),
						big("f/3", "b1", "4"), big("f/4", "b2", "4"),
						big("f/5", "c1", "4"), // c2 has no pod that may be evicted, and no room
						member("other/0", "c2").Req(schedtest.Resources{"cpu": "4"}).Obj(), big("f/6", "x", "4")),
				})
				f.admitted("g/0") // a result for allocate must not be used for actions that evict
				f.session.Run(f.action(action))
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

// TestEvictionsGoOnElsewhere: the choice of a cluster does not call all filters. If evictions in a cluster do not help, the
// action tries the next cluster, and evicts nothing in the first one.
func TestEvictionsGoOnElsewhere(t *testing.T) {
	beside := v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "friend"}}, TopologyKey: v1.LabelHostname,
	}}}}
	f := open(t, sessiontest.ClusterSpec{
		Nodes: nodes("a1 ib-a", "b1 ib-b", "c1 ib-c"), PriorityClasses: classes(),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=required").PriorityClass("high").Obj(), filler("f").Obj(), gang("friend", 1).Obj()},
		Pods: []*v1.Pod{
			vip("0", "3").Affinity(beside).Obj(), member("friend/0", "c1").Label("app", "friend").Obj(),
			big("f/0", "a1", "3"), big("f/1", "b1", "2"), big("f/2", "b1", "1"), big("f/3", "c1", "1"), big("f/4", "c1", "1"), big("f/5", "c1", "1"),
		},
	})
	f.session.Run(f.action("preempt"))
	if diff := cmp.Diff(map[string]string{"ns/g-0": "c1"}, f.session.Pipelined()); diff != "" {
		t.Errorf("nominations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ns/f-3", "ns/f-4", "ns/f-5"}, sorted(f.session.Evicts())); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
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
	f.session.Run(f.action("preempt"))
	if diff := cmp.Diff([]string{"ns/f-0"}, f.session.Evicts()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}
