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

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// The plugin has a say on nodes for two reasons, guards and gathering, and these tests have both in one session.

// TestGuardsKeepNodesBesideGatheredGangs: that a gang is gathered somewhere takes nothing from the guard of another.
func TestGuardsKeepNodesBesideGatheredGangs(t *testing.T) {
	for _, rule := range []string{"NodeTopologyLayer prefer", "Block must"} {
		t.Run(rule, func(t *testing.T) {
			given := fourNodes()
			given.Nodes = append(given.Nodes, holds("1").Name("aside").Obj())
			in(t, given, starvingAfter("5m"), func(t *testing.T, w *world) {
				w.cluster.Cache().AddPodGroupV1beta1(gangNamed("gathered", 1, asks(rule)))
				w.add(running("gathered", 0, "aside"))
				s := w.stream(1, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 30+drains); n < 30 {
					t.Errorf("it runs after %d sessions, want it to within %d after 30; %v", n, drains, w.condition("big", Guarded))
				}
			})
		})
	}
}

// TestNothingIsKeptForGangsThatNoRoomHelps: one that asks for a layer that is not there would have nodes emptied for nothing, alone or as
// one of a group.
func TestNothingIsKeptForGangsThatNoRoomHelps(t *testing.T) {
	group := says(gangs.GroupsAnnotation, groupOf("big", "other"))
	for name, c := range map[string]struct{ big, other map[string]string }{
		"a domain of it":                {big: asks("Rack must")},
		"a multiple in it":              {big: asks("Rack prefer 8")},
		"another of its group does":     {big: group, other: with(group, asks("Rack must"))},
		"it does, and its group is one": {big: with(group, asks("Rack must")), other: group},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
				s := w.stream(1, schedtest.Queue)
				for range 10 {
					s.flow()
				}
				for gang, said := range map[string]map[string]string{"big": c.big, "other": c.other} {
					if said != nil {
						w.cluster.Cache().AddPodGroupV1beta1(gangNamed(gang, 2, said))
						s.add(members(schedtest.MakePod().Req(cores("4")), gang, 2)...)
					}
				}
				for range 60 {
					s.flow()
					for _, gang := range []string{"big", "other"} {
						if w.job(gang) != nil && w.condition(gang, Guarded).Reason == nodesKept {
							t.Fatalf("nodes are kept for %s: %s", gang, w.condition(gang, Guarded).Message)
						}
					}
				}
			})
		})
	}
}

// acceptedFor are the nodes that no plugin refuses to the gang's first member that waits, asked from several goroutines as upstream's
// actions do.
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

// TestGatheredGangsKeepToTheirDomainBesideGuards: and off what is kept of it.
func TestGatheredGangsKeepToTheirDomainBesideGuards(t *testing.T) {
	in(t, sessiontest.World{Nodes: append(fourNodes().Nodes, tree()...)}, starvingAfter("5m"), func(t *testing.T, w *world) {
		w.cluster.Cache().AddPodGroupV1beta1(gangNamed("g", 1, asks("Block must")))
		w.add(running("g", 0, "a1"), schedtest.MakePod().Name("g-1").Group("g").Req(cores("90")).Obj())
		accepted := func() string {
			ssn := w.scheduler.Open()
			defer ssn.Close()
			return acceptedFor(ssn, "g")
		}
		if got := accepted(); got != "a1 a2" {
			t.Fatalf("accepted are %q, want a1 and a2, its block", got)
		}
		s := w.stream(1, schedtest.Queue)
		s.submit("big", schedtest.Queue, 2)
		for range 45 {
			if s.flow(); s.condition("big", Guarded).Reason == nodesKept {
				break
			}
		}
		if kept := w.condition("big", Guarded).Message; !strings.Contains(kept, ": a2, b1x") {
			t.Fatalf("kept for the other gang are not a2 and b1x: %s", kept)
		}
		if got := accepted(); got != "a1" {
			t.Errorf("accepted are %q, want a1, which is all that is not kept of its block", got)
		}
	})
}

// TestAllocateCountsOnNobodyOutsideOfTheDomain: a member without requests that finds room only outside of the block holds up its gang, and
// the room is for others.
func TestAllocateCountsOnNobodyOutsideOfTheDomain(t *testing.T) {
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
			given := sessiontest.World{Nodes: []*v1.Node{node("p", "b1", "2", "2"), node("q", "b2", "100m", "50")}}
			given.PodGroups = append(given.PodGroups, gangNamed("g", 3, asks(rule)), gangNamed("other", 2))
			given.Pods = append(append(waiting("g", 0, 2), waiting("other", 0, 2)...), schedtest.MakePod().Name("g-idle").Group("g").Obj())
			in(t, given, conf, func(t *testing.T, w *world) {
				w.actions = append(w.actions, backfill.New())
				w.pass(5*time.Second, time.Second)
				var bound []string
				for name := range w.bound {
					bound = append(bound, name)
				}
				slices.Sort(bound)
				if got := strings.Join(bound, " "); got != want {
					t.Errorf("bound are %q, want %q; g waits: %s", got, want, w.condition("g", "Unschedulable").Message)
				}
			})
		})
	}
}
