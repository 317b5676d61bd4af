// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/backfill"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// The plugin filters nodes for two reasons, reservations and gathering. These tests have both in one session.

// acceptedFor returns the nodes that no plugin rejects for one pending member of the gang. It calls filters
// concurrently, as upstream's actions do.
func acceptedFor(ssn *sessiontest.Session, gang string) string {
	var (
		mu       sync.Mutex
		asked    sync.WaitGroup
		accepted []string
	)
	for _, task := range ssn.Jobs[api.JobID(schedtest.Namespace+"/"+gang)].TaskStatusIndex[api.Pending] {
		if err := ssn.PrePredicateFn(task); err != nil {
			return err.Error()
		}
		for _, node := range ssn.NodeList {
			asked.Go(func() {
				if ssn.PredicateFn(task, node) == nil {
					mu.Lock()
					defer mu.Unlock()
					accepted = append(accepted, node.Name)
				}
			})
		}
		break
	}
	asked.Wait()
	slices.Sort(accepted)
	return strings.Join(accepted, " ")
}

// TestAllocateCountsNoMemberOutsideOfTheDomain: a member without requests fits only outside of the required block. Its
// gang is then not placed, and the resources are free for other gangs.
func TestAllocateCountsNoMemberOutsideOfTheDomain(t *testing.T) {
	const conf = `
actions: enqueue, allocate, backfill
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: coscheduling
`
	node := func(name, block, cpu, pods string) *v1.Node {
		return schedtest.MakeNode().Name(name).Label("spine", "s").Label("block", block).Capacity(schedtest.Resources{"cpu": cpu, "pods": pods}).Obj()
	}
	for rule, want := range map[string]string{"Block prefer": "g-0 g-1 g-idle", "Block must": "other-0 other-1"} {
		t.Run(rule, func(t *testing.T) {
			given := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("p", "b1", "2", "2"), node("q", "b2", "100m", "50")}}
			given.PodGroups = append(given.PodGroups, gangNamed("g", 3, asks(rule)), gangNamed("other", 2))
			given.Pods = append(append(waiting("g", 0, 2), waiting("other", 0, 2)...), schedtest.MakePod().Name("g-idle").Group("g").Obj())
			in(t, given, conf, func(t *testing.T, w *simulation) {
				w.actions = append(w.actions, backfill.New())
				w.pass(5*time.Second, time.Second)
				var bound []string
				for name := range w.bound {
					bound = append(bound, name)
				}
				slices.Sort(bound)
				if got := strings.Join(bound, " "); got != want {
					t.Errorf("the bound pods are %q, want %q; g waits: %s", got, want, w.condition("g", "Unschedulable").Message)
				}
			})
		})
	}
}
