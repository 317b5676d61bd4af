// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var randomWorlds = flag.Int("random-preemptions", 60, "how many random clusters TestRandomPreemptions makes")

// TestRandomPreemptions compares the action with arithmetic on random clusters with one starving gang. In half of them the queue
// has a capability, and in a third of them the gang may use only some of the nodes. In some the gang has members of two sizes, the larger a multiple of the smaller. Then it does not matter for
// the smaller ones which nodes the larger ones take.
// The gang gets room if and only if it fits without all pods of lower priority that may go. No evicted pod or gang can
// stay without taking away the room, and gangs are not left below their minimum.
func TestRandomPreemptions(t *testing.T) {
	for seed := range *randomWorlds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			newRandomWorld(uint64(seed)).check(t)
		})
	}
}

// randomWorld is a cluster of nodes with 8 CPUs.
type randomWorld struct {
	nodes map[string]string
	gangs []gang
	// wants is the gang that starves. It also has the number of small members with smallCPU CPUs each, which divides the CPUs of the others.
	wants           gang
	small, smallCPU int
	// capability is that of the queue in CPUs; 0 for no limit.
	capability int
	// closed are the nodes that the starving gang may not use.
	closed map[string]bool
}

func newRandomWorld(seed uint64) *randomWorld {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &randomWorld{nodes: nodesOf(1+rng.IntN(5), "8")}
	free := map[string]int{}
	for name := range w.nodes {
		free[name] = 8
	}
	for i := range rng.IntN(6) {
		cpu := 1 + rng.IntN(4)
		g := gang{name: fmt.Sprintf("g%d", i), priority: int32(1 + rng.IntN(3)), cpu: strconv.Itoa(cpu)}
		for range 1 + rng.IntN(5) {
			name := fmt.Sprintf("n%d", rng.IntN(len(w.nodes)))
			if free[name] >= cpu {
				free[name] -= cpu
				g.on = append(g.on, name)
			}
		}
		if len(g.on) > 0 {
			g.min = rng.IntN(len(g.on) + 1)
			w.gangs = append(w.gangs, g)
		}
	}
	members := 1 + rng.IntN(5)
	w.wants = gang{name: "new", priority: 3, min: members, pending: members, cpu: strconv.Itoa(1 + rng.IntN(8))}
	if rng.IntN(2) == 0 {
		w.capability = w.used(func(string) bool { return true }) + rng.IntN(9)
	}
	w.closed = map[string]bool{}
	if rng.IntN(3) == 0 {
		for i := range rng.IntN(len(w.nodes)) {
			w.closed[fmt.Sprintf("n%d", i)] = true
		}
	}
	cpu, _ := strconv.Atoi(w.wants.cpu)
	if w.smallCPU = 1 + rng.IntN(cpu); cpu%w.smallCPU == 0 && w.smallCPU < cpu {
		w.small = 1 + rng.IntN(4)
		w.wants.min += w.small
	}
	return w
}

// used returns the CPUs of the running pods that stay.
func (w *randomWorld) used(stays func(pod string) bool) (cpus int) {
	for _, g := range w.gangs {
		cpu, _ := strconv.Atoi(g.cpu)
		for i := range g.on {
			if stays(fmt.Sprintf("%s-%d", g.name, i)) {
				cpus += cpu
			}
		}
	}
	return cpus
}

// fits reports whether the starving gang fits beside the running pods that stay.
func (w *randomWorld) fits(stays func(pod string) bool) bool {
	free := map[string]int{}
	for name := range w.nodes {
		free[name] = 8
	}
	for _, g := range w.gangs {
		cpu, _ := strconv.Atoi(g.cpu)
		for i, node := range g.on {
			if stays(fmt.Sprintf("%s-%d", g.name, i)) {
				free[node] -= cpu
			}
		}
	}
	members, small := 0, 0
	cpu, _ := strconv.Atoi(w.wants.cpu)
	for name, left := range free {
		if w.closed[name] {
			continue
		}
		members += left / cpu
		small += left / w.smallCPU
	}
	if members < w.wants.pending || small < w.small+w.wants.pending*cpu/w.smallCPU && w.small > 0 {
		return false
	}
	return w.capability == 0 || w.used(stays)+w.wants.pending*cpu+w.small*w.smallCPU <= w.capability
}

// randomTiers are the tiers of random clusters.
var randomTiers = strings.Replace(strings.Replace(tiers, "%s", "", 1), "proportion", "capacity", 1)

func (w *randomWorld) spec() sessiontest.ClusterSpec {
	gangs := append(slices.Clone(w.gangs), w.wants)
	for i := range gangs {
		gangs[i].queue = "q"
	}
	spec, queue := world(w.nodes, gangs...), schedtest.MakeQueue().Name("q")
	for i := range w.small {
		small := schedtest.MakePod().Name(fmt.Sprintf("small-%d", i)).Group(w.wants.name).Priority(w.wants.priority)
		spec.Pods = append(spec.Pods, small.Req(schedtest.Resources{"cpu": strconv.Itoa(w.smallCPU)}).Obj())
	}
	for _, node := range spec.Nodes {
		node.Labels["closed"] = strconv.FormatBool(w.closed[node.Name])
	}
	for _, pod := range spec.Pods {
		if pod.Spec.NodeName == "" {
			pod.Spec.NodeSelector = map[string]string{"closed": "false"}
		}
	}
	if w.capability > 0 {
		queue = queue.Capability(schedtest.Resources{"cpu": strconv.Itoa(w.capability)})
	}
	spec.Queues = append(spec.Queues, queue.Obj())
	return spec
}

func (w *randomWorld) check(t *testing.T) {
	got := runWith(t, w.spec(), randomTiers)
	gone := func(pod string) bool { return slices.Contains(got.evicted, pod) }
	if w.fits(func(string) bool { return true }) {
		if len(got.evicted) > 0 {
			t.Fatalf("evicted %v for a gang that fits", got.evicted)
		}
		return
	}
	possible := w.fits(func(pod string) bool {
		return slices.ContainsFunc(w.gangs, func(g gang) bool { return g.priority >= w.wants.priority && g.has(pod) })
	})
	if helped := len(got.evicted) > 0; helped != possible {
		t.Fatalf("evicted %v; preemption can help: %t; reason: %s\ngangs: %+v, starving: %+v", got.evicted, possible, got.reasons["new"], w.gangs, w.wants)
	}
	if !possible {
		return
	}
	if !w.fits(func(pod string) bool { return !gone(pod) }) {
		t.Fatalf("the gang does not fit without %v", got.evicted)
	}
	for _, g := range w.gangs {
		var evicted []string
		for i := range g.on {
			if pod := fmt.Sprintf("%s-%d", g.name, i); gone(pod) {
				evicted = append(evicted, pod)
			}
		}
		left := len(g.on) - len(evicted)
		if len(evicted) > 0 && g.min > 1 && left < g.min && left > 0 {
			t.Errorf("%d of %d pods of gang %s are left, which needs %d", left, len(g.on), g.name, g.min)
		}
		if g.priority >= w.wants.priority && len(evicted) > 0 {
			t.Errorf("evicted %v of equal priority", evicted)
		}
		// Pods beyond the minimum are put back one by one, the others together.
		switch {
		case left >= g.min || g.min <= 1:
			for _, pod := range evicted {
				if w.fits(func(other string) bool { return other == pod || !gone(other) }) {
					t.Errorf("%s need not go: evicted %v", pod, got.evicted)
				}
			}
		case w.fits(func(other string) bool { return g.has(other) || !gone(other) }):
			t.Errorf("gang %s need not go: evicted %v", g.name, got.evicted)
		case w.sparesSuffice(g, gone):
			t.Errorf("gang %s need not go as a whole: evicted %v\ngangs: %+v, starving: %+v, capability %d, closed %v, %d small of %d, nodes %d", g.name, got.evicted, w.gangs, w.wants, w.capability, w.closed, w.small, w.smallCPU, len(w.nodes))
		}
	}
}

// sparesSuffice reports whether there would be room as well if the gang, which is evicted as a whole, kept its minimum.
func (w *randomWorld) sparesSuffice(g gang, gone func(pod string) bool) bool {
	for subset := range 1 << len(g.on) {
		if len(g.on)-bits.OnesCount(uint(subset)) < g.min {
			continue
		}
		if w.fits(func(pod string) bool {
			for i := range g.on {
				if pod == fmt.Sprintf("%s-%d", g.name, i) {
					return subset&(1<<i) == 0
				}
			}
			return !gone(pod)
		}) {
			return true
		}
	}
	return false
}

// has reports whether the pod is a running pod of the gang.
func (g gang) has(pod string) bool {
	for i := range g.on {
		if pod == fmt.Sprintf("%s-%d", g.name, i) {
			return true
		}
	}
	return false
}
