// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestExcludedGangsAreNotLookedAtAgain checks that a gang without a chance is explained as in the session before, without the
// session's memory of fingerprints.
func TestExcludedGangsAreNotLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		pending int
		cpu     string
	}{"a job of one pod": {1, "8"}, "a gang": {2, "8"}, "a gang that allocate tries to place": {2, "4"}} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(2, "4"),
				gang{name: "old", min: 1, priority: 1, cpu: "2", on: []string{"n0"}},
				gang{name: "held", min: 1, priority: 9, cpu: "1", on: []string{"n1"}},
				gang{name: "new", min: c.pending, priority: 9, cpu: c.cpu, pending: c.pending},
				gang{name: "like", min: c.pending, priority: 9, cpu: c.cpu, pending: c.pending})
			cl := newLiveCluster(w, simpleTiers)
			defer cl.close()
			first, memory := cl.session(), &cl.action.memory
			if len(memory.excluded) != 2 || len(memory.exclusions) != 1 {
				t.Fatalf("%d gangs are excluded for %d reasons, want 2 for one; reasons: %v", len(memory.excluded), len(memory.exclusions), first.reasons)
			}
			for key, e := range memory.exclusions {
				delete(memory.exclusions, key)
				key.why = "the reason of the last session"
				memory.exclusions[key] = e
			}
			for range 3 {
				memory.refused, memory.former = nil, nil
				for _, name := range []string{"new", "like"} {
					if got, want := cl.session().reasons[name], "; preemption cannot help: the reason of the last session"; !strings.HasSuffix(got, want) {
						t.Errorf("gang %s: reason %q, want one that ends in %q", name, got, want)
					}
				}
			}
		})
	}
}

// TestJobsOfOnePodThatDiffer checks that a job of one pod does not get the reason of a job of another priority or queue.
func TestJobsOfOnePodThatDiffer(t *testing.T) {
	w := world(nodesOf(1, "4"),
		gang{name: "old", min: 1, priority: 5, cpu: "4", on: each(1)},
		gang{name: "new", min: 1, priority: 9, cpu: "8", pending: 1},
		gang{name: "like", min: 1, priority: 9, cpu: "8", pending: 1},
		gang{name: "low", min: 1, priority: 5, cpu: "8", pending: 1},
		gang{name: "elsewhere", queue: "other", min: 1, priority: 9, cpu: "8", pending: 1})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("other").Obj())
	changePods(&w, "low-", func(pod *v1.Pod) { pod.Spec.Priority = w.Pods[1].Spec.Priority }) // only the PodGroups differ
	got := runWith(t, w, simpleTiers)
	full, none := "the cluster has room for 0 of 1 members even without the pods that may be evicted", "no pods may be evicted for the gang"
	for name, want := range map[string]string{"new": full, "like": full, "low": none, "elsewhere": none} {
		if !strings.HasSuffix(got.reasons[name], want) {
			t.Errorf("job %s: reason %q, want one that ends in %q", name, got.reasons[name], want)
		}
	}
}

// TestOtherRefusalsLastOneSession checks that a gang that is refused for another reason than arithmetic gets room once the
// reason no longer applies.
func TestOtherRefusalsLastOneSession(t *testing.T) {
	never := v1.PreemptNever
	group := map[string]string{gangs.GroupsAnnotation: `["ns/a","ns/b"]`}
	for name, c := range map[string]struct {
		refused func(w *sessiontest.ClusterSpec)
		others  []gang
		reason  string
	}{
		"the delay": {
			refused: func(w *sessiontest.ClusterSpec) {
				podGroupOf(w, "a").Annotations = map[string]string{DelayAnnotation: "1000000h"}
			},
			reason: "because of a delay of 1000000h0m0s",
		},
		"the preemptionPolicy": {
			refused: func(w *sessiontest.ClusterSpec) {
				changePods(w, "a-", func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = &never })
			},
			reason: "preemptionPolicy of its pods is Never",
		},
		"the capability of the queue": {
			refused: func(w *sessiontest.ClusterSpec) {
				w.Queues[0] = schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "3"}).Obj()
			},
			reason: "queue q has capability cpu 3, 4 requested",
		},
		"a gang of its group has too few pods": {
			refused: func(w *sessiontest.ClusterSpec) { w.Pods = w.Pods[:len(w.Pods)-1] },
			others:  []gang{{name: "b", queue: "q", min: 1, priority: 9, cpu: "4", pending: 1, annotations: group}},
			reason:  "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := func(change func(w *sessiontest.ClusterSpec)) sessiontest.ClusterSpec {
				a := gang{name: "a", queue: "q", min: 1, priority: 9, cpu: "4", pending: 1}
				if c.others != nil {
					a.annotations = group
				}
				w := world(nodesOf(2, "4"), append([]gang{{name: "old", queue: "q", min: 0, priority: 1, cpu: "4", on: each(2)}, a}, c.others...)...)
				w.Queues = append(w.Queues, schedtest.MakeQueue().Name("q").Obj())
				change(&w)
				return w
			}
			before, after := spec(c.refused), spec(func(*sessiontest.ClusterSpec) {})
			cl := newLiveCluster(before, strings.Replace(groupTiers, "proportion", "capacity", 1))
			defer cl.close()
			for range 2 {
				got, known := cl.session(), len(cl.action.memory.excluded)
				if len(got.evicted) > 0 || !strings.Contains(got.reasons["a"], c.reason) || known > 0 {
					t.Fatalf("evicted %v and excluded %d gangs, want none; reason: %s, want one with %q", got.evicted, known, got.reasons["a"], c.reason)
				}
			}
			cl.showChanges(before, after)
			if got := cl.session(); len(got.evicted) != 1+len(c.others) {
				t.Errorf("evicted %v after the change, want %d pods; reason: %s", got.evicted, 1+len(c.others), got.reasons["a"])
			}
		})
	}
}

// pauser is an action that pauses all jobs, or none.
type pauser struct{ paused bool }

func (*pauser) Name() string                                   { return "pauser" }
func (*pauser) Execute(*framework.Session)                     {}
func (p *pauser) Paused(*framework.Session, *api.JobInfo) bool { return p.paused }

// TestAPauseLastsOneSession checks that a paused gang gets room once the pause has ended.
func TestAPauseLastsOneSession(t *testing.T) {
	cl := newLiveCluster(world(nodesOf(1, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1}), simpleTiers)
	defer cl.close()
	pauses := &pauser{paused: true}
	cl.registry.RegisterAction(pauses)
	if got := cl.session(); len(got.evicted) > 0 || !strings.HasSuffix(got.reasons["new"], "the gang may be placed on idle resources only, for now") {
		t.Fatalf("evicted %v in a pause; reason: %s", got.evicted, got.reasons["new"])
	}
	pauses.paused = false
	if got := cl.session(); len(got.evicted) != 1 {
		t.Errorf("evicted %v after the pause, want a pod; reason: %s", got.evicted, got.reasons["new"])
	}
}

// TestAReloadIsSeen checks that an excluded gang is looked at again with another configuration.
func TestAReloadIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		conf    string
		evicted []string
	}{
		"another argument": {fmt.Sprintf(tiers, ", disruption: pod"), []string{"old-0", "partly-0"}},
		"a plugin no longer votes": {
			strings.Replace(simpleTiers, "- name: priority\n", "- name: priority\n    enablePreemptable: false\n", 1), []string{"old-0", "same-0"},
		},
		"another plugin": {strings.Replace(simpleTiers, "- name: predicates\n", "- name: predicates\n    arguments: {predicate.TaintTolerationEnable: false}\n", 1), []string{"old-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newLiveCluster(refusedWorld(), simpleTiers)
			defer func() { cl.close() }()
			if first := cl.session(); len(first.evicted) > 0 || len(cl.action.memory.excluded) != 1 {
				t.Fatalf("evicted %v and excluded %d gangs before the reload, want none and 1", first.evicted, len(cl.action.memory.excluded))
			}
			cl.scheduler.Close()
			cl.scheduler = cl.Scheduler(cl.registry, c.conf)
			if got := cl.session(); !slices.Equal(got.evicted, c.evicted) {
				t.Errorf("evicted %v after the reload, want %v; reason: %s", got.evicted, c.evicted, got.reasons["new"])
			}
		})
	}
}

// TestOtherVotesAreNotKept checks that no gang is excluded beyond the session if plugins choose victims by something that is not
// compared between sessions, such as PodDisruptionBudgets, or if the action is reclaim.
func TestOtherVotesAreNotKept(t *testing.T) {
	budgets := strings.Replace(simpleTiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1)
	reclaim := strings.Replace(simpleTiers, "name: preempt\n", "name: reclaim\n", 1)
	for name, open := range map[string]func() *cluster{
		"plugin pdb":     func() *cluster { return newLiveCluster(refusedWorld(), budgets) },
		"action reclaim": func() *cluster { return newClusterOf(refusedWorld(), reclaim, NewReclaim(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			cl := open()
			defer cl.close()
			got, memory := cl.session(), &cl.action.memory
			if len(got.evicted) > 0 || !strings.Contains(got.reasons["new"], " cannot help: ") || len(memory.excluded)+len(memory.refused) > 0 {
				t.Errorf("evicted %v and excluded %d gangs, want none; reason: %s", got.evicted, len(memory.excluded), got.reasons["new"])
			}
		})
	}
}

// TestOtherRulesAreNotKept checks that a gang is not excluded beyond the session if a rule other than resources refuses it.
func TestOtherRulesAreNotKept(t *testing.T) {
	apart := func(p *schedtest.PodBuilder) {
		p.Label("apart", "yes").Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": "yes"}},
		}}}})
	}
	cl := newLiveCluster(world(nodesOf(1, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "new", min: 2, priority: 9, cpu: "2", pending: 2, pod: apart}), simpleTiers)
	defer cl.close()
	got, memory := cl.session(), &cl.action.memory
	if want := "because of a rule other than resources"; !strings.HasSuffix(got.reasons["new"], want) || len(memory.excluded) > 0 {
		t.Errorf("excluded %d gangs, want none; reason %q, want one that ends in %q", len(memory.excluded), got.reasons["new"], want)
	}
}

// TestRandomChanges compares sessions after random changes of a live cluster with sessions of a new cluster in the same state.
func TestRandomChanges(t *testing.T) {
	for seed := range *randomWorlds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng, w := rand.New(rand.NewPCG(uint64(seed), 1)), newRandomWorld(uint64(seed))
			w.wants.min, w.wants.pending = w.wants.min+3, w.wants.pending+3 // mostly too many
			before := w.spec()
			cl := newLiveCluster(before, randomTiers)
			got := cl.session()
			for changes := 0; changes < 4 && len(got.evicted)+len(got.bound) == 0; changes++ {
				w.change(rng)
				after := w.spec()
				cl.showChanges(before, after)
				before = after
				got = cl.session()
			}
			cl.close()
			fresh := newLiveCluster(before, randomTiers)
			defer fresh.close()
			if diff := cmp.Diff(fresh.session(), got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("session after changes (-new cluster +live cluster):\n%s", diff)
			}
		})
	}
}

// change makes a random change, or none. Gangs and pods are only added.
func (w *randomWorld) change(rng *rand.Rand) {
	switch rng.IntN(6) {
	case 0:
		w.nodes[fmt.Sprintf("n%d", len(w.nodes))] = "8"
	case 1:
		w.wants.priority = int32(1 + rng.IntN(4))
	case 2:
		w.wants.min = max(1, w.wants.min-1)
	case 3, 4:
		if len(w.gangs) > 0 {
			g := &w.gangs[rng.IntN(len(w.gangs))]
			g.priority, g.min = int32(1+rng.IntN(3)), rng.IntN(len(g.on)+1)
		}
	}
}
