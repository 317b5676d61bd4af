// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"testing"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAGangGroupIsAdmittedAsAWhole checks that a gang group is admitted as a whole. The node has room for either of
// two gang groups of one namespace and queue. If only one gang of each were admitted, neither group would be placed.
func TestAGangGroupIsAdmittedAsAWhole(t *testing.T) {
	const tiers = "actions: \"enqueue, allocate\"\ntiers:\n- plugins: [{name: coscheduling}, {name: gang}]\n- plugins: [{name: predicates}, {name: capacity}, {name: overcommit}]\n"
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj())
	names := []string{"a1", "b1", "a2", "b2"}
	for i, name := range names {
		g := groupAsking(name, schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "4"))
		g.CreationTimestamp.Time = g.CreationTimestamp.Add(time.Duration(i) * time.Minute)
		g.Annotations = map[string]string{gangs.GroupsAnnotation: fmt.Sprintf(`["ns/%s1","ns/%s2"]`, name[:1], name[:1])}
		cluster.Put(g)
		for _, pod := range waitingPods(name, 1, "4", nil) {
			cluster.Put(pod)
		}
	}
	s := newTestScheduler(t, cluster, loaded(t, tiers))
	s.cycle()
	eventually(t, func() bool {
		s.cycle()
		return cluster.Pod("a1-0").Spec.NodeName != "" && cluster.Pod("a2-0").Spec.NodeName != ""
	})
	for _, name := range []string{"b1-0", "b2-0"} {
		if node := cluster.Pod(name).Spec.NodeName; node != "" {
			t.Errorf("pod %s is bound to %s", name, node)
		}
	}
}

// TestAnEarlierTierPermitsAGang checks that no limit applies if a plugin such as sla permits a gang in an earlier
// tier, not even the limit of the gang's own namespace.
func TestAnEarlierTierPermitsAGang(t *testing.T) {
	for sla, want := range map[string]int{"1s": 1, "1h": 0} {
		t.Run(sla, func(t *testing.T) {
			tiers := "actions: \"enqueue, allocate\"\ntiers:\n- plugins: [{name: gang}, {name: sla, arguments: {sla-waiting-time: " + sla + "}}]\n- plugins: [{name: predicates}, {name: overcommit}]\n"
			waits := groupAsking("waits", schedtest.Queue, v1beta1.PodGroupInqueue, quantities("cpu", "4"))
			waits.Spec.MinMember = 100
			asks := groupAsking("w0", schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "8"))
			asks.CreationTimestamp.Time = time.Now().Add(-time.Minute)
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj(), waits, asks)
			s := newTestScheduler(t, cluster, loaded(t, tiers))
			for range 3 {
				s.cycle()
			}
			if got := admittedGangs(s); got != want {
				t.Errorf("%d gangs are admitted, want %d: %v", got, want, s.pending.PendingReasons()["ns/w0"])
			}
		})
	}
}
