// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

var randomSessions = rounds.Flag("random-sessions", 100, 400, "how many sessions each of the randomized tests of snapshots opens")

// randomConf has a plugin of this project first, and the plugins of upstream that change their copies.
const randomConf = `
actions: allocate
tiers:
- plugins:
  - name: fickle
- plugins:
  - name: gang
  - name: predicates
    arguments:
      predicate.VolumeBindingEnable: false
      predicate.NodeVolumeLimitsEnable: false
      predicate.VolumeZoneEnable: false
`

// fickle is a plugin whose pre-bind step fails for some tasks in some of the tries.
type fickle struct {
	mu    sync.Mutex
	tries map[string]int
}

func (p *fickle) Name() string                          { return "fickle" }
func (p *fickle) OnSessionClose(ssn *framework.Session) {}

func (p *fickle) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPreBindFn(p.Name(), func(task *api.TaskInfo, node string) error {
		p.mu.Lock()
		p.tries[task.Name]++
		hash := fnv.New32a()
		fmt.Fprint(hash, task.Name, p.tries[task.Name])
		p.mu.Unlock()
		if hash.Sum32()%3 == 0 {
			return errBroken
		}
		return nil
	})
}

// randomProfile returns a profile of randomConf. trusted reports whether its sessions are trusted to change placed tasks
// only by methods of jobs and nodes, so that less of their copies is compared.
func randomProfile(t *testing.T, w *harness, trusted bool) (*framework.Registry, *framework.Profile) {
	t.Helper()
	registry := framework.NewRegistry()
	registry.Reporter = report.NewPendingGangs(nil)
	registry.RegisterPlugin(framework.PluginSpec{Name: "fickle", LeavesTasks: trusted, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return &fickle{tries: map[string]int{}}, nil
	})})
	_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf(randomConf)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := registry.Build(framework.ProfileInput{Tiers: tiers, Configurations: configurations}, w.cache.handle)
	if err != nil {
		t.Fatal(err)
	}
	return registry, profile
}

// whole is a cache whose sessions use upstream's snapshot and are opened by upstream alone.
type whole struct{ framework.Cache }

// TestSessionsAreAsIfAllWereCopied checks that a session on reused copies equals a session on a full snapshot, whatever
// happens in the cluster while sessions are open or opening, and however sessions change their copies. Trusted sessions
// change them only as they may.
func TestSessionsAreAsIfAllWereCopied(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				trusted := seed%2 == 1
				registry, profile := randomProfile(t, w, trusted)
				rng := rand.New(rand.NewPCG(seed, 0))
				actors := []*actor{newActor(w, "a", seed), newActor(w, "b", seed), newActor(w, "c", seed)}
				for step := range randomSessions.Of(t) {
					var events sync.WaitGroup
					for _, a := range actors {
						events.Go(func() {
							for range a.rng.IntN(4) {
								a.act()
							}
						})
					}
					if rng.IntN(4) > 0 {
						ssn := registry.OpenSession(w.cache, profile)
						use(rng, registry, ssn, trusted)
					}
					events.Wait()
					time.Sleep(time.Duration(rng.IntN(3)) * time.Second)
					synctest.Wait()

					want := registry.OpenSession(whole{w.cache}, profile)
					got := registry.OpenSession(w.cache, profile)
					if diff := sessionDiff(want.Session, got.Session); diff != "" {
						t.Errorf("step %d: %s", step, diff)
						return
					}
					use(rng, registry, got, trusted)
				}
			})
		})
	}
}

// These are the ways in which a statement may end. It may also remain open.
const (
	committed = iota
	discarded
)

// use changes the session as actions and plugins do, and usually closes it. Unless the session is trusted, it finally
// changes copies of jobs and nodes in ways that are not allowed.
func use(rng *rand.Rand, registry *framework.Registry, ssn *framework.Session, trusted bool) {
	jobs, nodes := ssn.Jobs, ssn.Nodes
	for range rng.IntN(5) {
		statement, end := vcframework.NewStatement(ssn.Session), rng.IntN(3)
		for range rng.IntN(4) {
			operate(rng, ssn, statement, !trusted || end != discarded)
		}
		switch end {
		case committed:
			statement.Commit()
		case discarded:
			statement.Discard()
		}
	}
	if rng.IntN(8) > 0 { // otherwise it panicked
		registry.CloseSession(ssn)
	}
	if trusted {
		return
	}
	for range rng.IntN(3) {
		var victim any = jobs[pick(rng, jobs)]
		if node := nodes[pick(rng, nodes)]; node != nil && rng.IntN(2) == 0 {
			victim = node
		}
		if changes := changesOf(victim); len(changes) > 0 {
			changes[rng.IntN(len(changes))].do()
		}
	}
}

// operate adds an operation to the statement. It may be an eviction if evicts is set. An eviction that is undone leaves
// the field LastTransaction of the task's copies set until they are compared in full.
func operate(rng *rand.Rand, ssn *framework.Session, statement *vcframework.Statement, evicts bool) {
	job, node := ssn.Jobs[pick(rng, ssn.Jobs)], ssn.Nodes[pick(rng, ssn.Nodes)]
	if job == nil || node == nil {
		return
	}
	switch pending, running := job.TaskStatusIndex[api.Pending], job.TaskStatusIndex[api.Running]; rng.IntN(5) {
	case 0:
		if task := running[pick(rng, running)]; task != nil && evicts && ssn.Nodes[task.NodeName] != nil {
			_ = statement.Evict(task, "it is in the way")
		}
	case 1:
		if task := pending[pick(rng, pending)]; task != nil {
			_ = statement.Pipeline(task, node.Name, true)
		}
	default:
		if task := pending[pick(rng, pending)]; task != nil {
			_ = statement.Allocate(task, node)
			task.Pod.Annotations["device"] = "3"
		}
	}
}

func pick[K ~string, V any](rng *rand.Rand, from map[K]V) K {
	if len(from) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(from))[rng.IntN(len(from))]
}
