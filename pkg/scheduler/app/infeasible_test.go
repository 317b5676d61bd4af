// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAnInfeasibleGangKeepsNoGangFromAdmission checks that an infeasible gang prevents no other gang's admission. A
// Volcano Job is admitted before it has pods, and only its pods show that no cluster can hold it. Other gangs must
// not wait for its resources.
func TestAnInfeasibleGangKeepsNoGangFromAdmission(t *testing.T) {
	tests := map[string]struct {
		asks string
		// beside is how many of two gangs are admitted that each fill a cluster. message is a part of the message on the
		// infeasible gang's PodGroup.
		beside  int
		message string
	}{
		"members of which each node takes one": {"2500m", 2, "none of 2 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 3 that request cpu 2500m"},
		"members that wait for a label":        {"2", 1, "nodes didn't match Pod's node affinity/selector"},
	}
	for name, tt := range tests {
		for _, plugin := range []string{"overcommit, arguments: {overcommit-factor: 1}", "proportion", "capacity"} {
			t.Run(name+", plugin "+plugin, func(t *testing.T) {
				cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
					limitedQueue("q", quantities("cpu", "16")))
				for i := range 4 {
					cluster.Put(schedtest.MakeNode().Name(fmt.Sprint("n", i)).Label("ibcluster", []string{"ib-a", "ib-b"}[i/2]).
						Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
				}
				asking := func(name string, members int32, cpu string) {
					pg := groupAsking(name, "q", v1beta1.PodGroupPending, quantities("cpu", cpu))
					pg.Spec.MinMember = members
					pg.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
					cluster.Put(pg)
				}
				asking("g", 3, "7500m")
				s := newTestScheduler(t, cluster, loaded(t, fmt.Sprintf(
					"actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: %s}, {name: ibcluster}]\n", plugin)))
				eventually(t, func() bool { s.cycle(); return cluster.PodGroup("g").Status.Phase == v1beta1.PodGroupInqueue })
				for i := range 3 {
					cluster.Put(schedtest.MakePod().Name(fmt.Sprint("g-", i)).Group("g").Req(schedtest.Resources{"cpu": tt.asks}).NodeSelector("is", "away").Obj())
				}
				asking("w0", 1, "8")
				asking("w1", 1, "8")
				eventually(t, func() bool {
					jobs := s.cache.Snapshot().Jobs
					return len(jobs["ns/g"].Tasks) == 3 && jobs["ns/w0"] != nil && jobs["ns/w1"] != nil
				})
				eventually(t, func() bool {
					s.cycle()
					for i := range 3 {
						if len(cluster.Pod(fmt.Sprint("g-", i)).Status.Conditions) == 0 {
							return false
						}
					}
					return strings.Contains(unschedulableMessage(cluster.PodGroup("g")), tt.message)
				})
				if got := admittedGangs(s); got != tt.beside {
					t.Errorf("%d of 2 are admitted beside it, want %d", got, tt.beside)
				}
				if got := cluster.PodGroup("g"); got.Status.Phase != v1beta1.PodGroupInqueue || !cmp.Equal(*got.Spec.MinResources, quantities("cpu", "7500m")) {
					t.Errorf("the gang itself is %s and asks for %v", got.Status.Phase, got.Spec.MinResources)
				}
				cluster.Writes()
				for range 5 {
					s.cycle()
				}
				if writes := cluster.Writes(); len(writes) > 0 {
					t.Errorf("nothing changed, and written was %q", writes)
				}
			})
		}
	}
}
