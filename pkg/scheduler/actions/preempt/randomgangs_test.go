// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var randomCrowds = flag.Int("random-crowds", 60, "how many random clusters TestRandomGangs makes")

// TestRandomGangs has two or three starving gangs in each cluster, on unlike nodes of which each gang may use some. In half of the clusters plugin gang
// chooses victims, in half a budget protects a gang, and in half of these it is strict.
//
// No pod is evicted twice, or for a gang that gets no room. Gangs keep their minimum or go whole. A starving gang waits for room with its whole minimum or not at
// all, on nodes that it may use, and the nodes have room for all.
func TestRandomGangs(t *testing.T) {
	helped := 0
	for seed := range *randomCrowds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { helped += newRandomCrowd(uint64(seed)).check(t) })
	}
	if helped < *randomCrowds/4 {
		t.Errorf("only %d gangs got room in %d clusters", helped, *randomCrowds)
	}
}

// randomCrowd is a cluster with gangs that run and gangs that starve.
type randomCrowd struct {
	cpus              map[string]int
	running, starving []gang
	// mayUse are the nodes that a starving gang may use.
	mayUse map[string][]string
	// budgetFor is the gang with a budget, which allows so many disruptions; empty for none.
	budgetFor         string
	allowed           int
	gangVotes, strict bool
}

func newRandomCrowd(seed uint64) *randomCrowd {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &randomCrowd{cpus: map[string]int{}, mayUse: map[string][]string{}, gangVotes: rng.IntN(2) == 0}
	free := map[string]int{}
	for i := range 2 + rng.IntN(4) {
		name := fmt.Sprintf("n%d", i)
		w.cpus[name] = 4 + rng.IntN(9)
		free[name] = w.cpus[name]
	}
	names := slices.Sorted(maps.Keys(w.cpus))
	for i := range 2 + rng.IntN(3) {
		cpu := 1 + rng.IntN(4)
		g := gang{name: fmt.Sprintf("g%d", i), priority: int32(1 + rng.IntN(3)), cpu: strconv.Itoa(cpu)}
		for range 1 + rng.IntN(6) {
			if name := names[rng.IntN(len(names))]; free[name] >= cpu {
				free[name] -= cpu
				g.on = append(g.on, name)
			}
		}
		if len(g.on) > 0 {
			g.min = rng.IntN(len(g.on) + 1)
			w.running = append(w.running, g)
		}
	}
	if len(w.running) > 0 && rng.IntN(2) == 0 {
		g := &w.running[rng.IntN(len(w.running))]
		w.budgetFor, w.allowed, w.strict = g.name, rng.IntN(len(g.on)+1), rng.IntN(2) == 0
		g.pod = func(pod *schedtest.PodBuilder) { pod.Label("a", "yes") }
	}
	for i := range w.running {
		if w.strict && w.running[i].pod == nil { // plugin pdb keeps pods without labels
			w.running[i].pod = func(pod *schedtest.PodBuilder) { pod.Label("a", "no") }
		}
	}
	for i := range 2 + rng.IntN(2) {
		members := 1 + rng.IntN(3)
		g := gang{name: fmt.Sprintf("new%d", i), priority: int32(3 + rng.IntN(3)), min: members, pending: members, cpu: strconv.Itoa(1 + rng.IntN(6))}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		w.mayUse[g.name] = slices.Clone(names[:1+rng.IntN(len(names))])
		g.pod = on("name", w.mayUse[g.name]...)
		w.starving = append(w.starving, g)
	}
	return w
}

// check runs a session on the cluster. It returns how many gangs got room by evictions.
func (w *randomCrowd) check(t *testing.T) (helped int) {
	nodes := map[string]string{}
	for name, cpu := range w.cpus {
		nodes[name] = strconv.Itoa(cpu)
	}
	spec, conf := world(nodes, slices.Concat(w.running, w.starving)...), simpleTiers
	if w.strict {
		conf = strings.Replace(conf, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1)
	}
	if w.gangVotes {
		conf = strings.Replace(conf, "    enablePreemptable: false\n", "", 1)
	}
	if w.budgetFor != "" {
		spec.Objects = append(spec.Objects, budgetFor("one", "a", int32(w.allowed)))
	}
	got := runWith(t, spec, conf)
	if t.Failed() || !slices.Equal(got.evicted, slices.Compact(slices.Clone(got.evicted))) {
		t.Fatalf("evicted %v: a pod twice", got.evicted)
	}
	used := map[string]int{}
	for _, g := range w.running {
		cpu, _ := strconv.Atoi(g.cpu)
		left := 0
		for i, node := range g.on {
			if !slices.Contains(got.evicted, fmt.Sprintf("%s-%d", g.name, i)) {
				used[node] += cpu
				left++
			}
		}
		lost := len(g.on) - left
		if lost > 0 && g.min > 1 && left < g.min && (left > 0 || w.gangVotes) {
			t.Errorf("%d of %d pods of gang %s are left, which needs %d (plugin gang votes: %t): evicted %v", left, len(g.on), g.name, g.min, w.gangVotes, got.evicted)
		}
		if w.strict && g.name == w.budgetFor && lost > w.allowed {
			t.Errorf("evicted %v: the budget of gang %s allows %d", got.evicted, g.name, w.allowed)
		}
		if lost > 0 && !slices.ContainsFunc(w.starving, func(s gang) bool { return s.priority > g.priority }) {
			t.Errorf("evicted %v: no gang has a higher priority than gang %s", got.evicted, g.name)
		}
	}
	for _, g := range w.starving {
		cpu, _ := strconv.Atoi(g.cpu)
		placed, waits := 0, false
		for i := range g.pending {
			pod := fmt.Sprintf("%s-%d", g.name, i)
			node, pipelined := got.pipelined[pod]
			if waits = waits || pipelined; !pipelined {
				node = got.nodes[pod]
			}
			if node == "" {
				continue
			}
			placed++
			used[node] += cpu
			if !slices.Contains(w.mayUse[g.name], node) {
				t.Errorf("pod %s is on node %s, and may use %v", pod, node, w.mayUse[g.name])
			}
		}
		if placed != 0 && placed != g.min {
			t.Errorf("%d of %d members of gang %s have room", placed, g.min, g.name)
		}
		if waits {
			helped++
		}
	}
	if helped == 0 && len(got.evicted) > 0 {
		t.Errorf("evicted %v for no gang; reasons: %v", got.evicted, got.reasons)
	}
	for name, cpu := range used {
		if cpu > w.cpus[name] {
			t.Errorf("node %s has %d CPUs, of which %d are used: evicted %v, bound %v, waiting %v", name, w.cpus[name], cpu, got.evicted, got.nodes, got.pipelined)
		}
	}
	return helped
}
