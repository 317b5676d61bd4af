// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var largePackings = rounds.Flag("random.largepackings", 8, 40, "how many large gangs that fit TestLargePacking draws")

// largeGang is a gang of many members of a few sizes, and nodes that the gang is known to fit. The nodes are filled
// with random members until one resource of each is used up. slack is the percentage of further such nodes.
type largeGang struct {
	shapes []size
	counts []int
	nodes  []size
	slack  int
}

func drawLargeGang(d dice) largeGang {
	for {
		g := largeGang{slack: pick(d, 0, 0, 1, 2, 5, 10, 15, 30)}
		for range d.between(2, 8) {
			g.shapes = append(g.shapes, size{1000 * d.between(1, 16), d.between(1, 128), pick(d, 0, 0, 1, 2, 4)})
		}
		g.counts = make([]int, len(g.shapes))
		capacities := []size{{32_000, 256, 8}}
		if d.chance(50) {
			capacities = append(capacities, size{64_000, 256, 0})
		}
		alike := d.chance(50)
		members := d.between(100, 1000)
		for tries := 0; g.members() < members && tries < 20_000; tries++ {
			g.fillNode(d, capacities, alike)
		}
		if g.members() < members || slices.Contains(g.counts, 0) {
			continue
		}
		for i := range len(g.nodes) * g.slack / 100 {
			g.nodes = append(g.nodes, g.nodes[i])
		}
		d.Shuffle(len(g.nodes), func(i, j int) { g.nodes[i], g.nodes[j] = g.nodes[j], g.nodes[i] })
		return g
	}
}

func (g *largeGang) members() (n int) {
	for _, count := range g.counts {
		n += count
	}
	return n
}

// fillNode adds a node that random members fill. With alike, the node keeps one of the capacities, and is added only if
// its members use up a resource. Otherwise one of its resources is reduced to the sum of its members' requests.
func (g *largeGang) fillNode(d dice, capacities []size, alike bool) {
	node := pick(d, capacities...)
	left, taken := node, make([]int, len(g.shapes))
	for {
		shape := d.IntN(len(g.shapes))
		if !g.shapes[shape].fits(left) {
			break
		}
		left = left.minus(g.shapes[shape])
		taken[shape]++
	}
	if left == node {
		return
	}
	full := left.cpu == 0 || left.memory == 0 || node.gpus > 0 && left.gpus == 0
	if alike && !full {
		return
	}
	if !full {
		if d.chance(50) {
			node.cpu -= left.cpu
		} else {
			node.memory -= left.memory
		}
	}
	for shape, count := range taken {
		g.counts[shape] += count
	}
	g.nodes = append(g.nodes, node)
}

// instance returns an instance with the gang. The gang's minimum is the number of members that its nodes hold. In a
// quarter of the instances, each role also has a minimum, and one role has more members than its minimum.
func (g *largeGang) instance(d dice, seed uint64) instance {
	var w sessiontest.ClusterSpec
	for i, node := range g.nodes {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("node-%03d", i)).Capacity(node.capacity(110)).Obj())
	}
	group := schedtest.MakePodGroup().Name("gang").MinMember(int32(g.members()))
	surplus := -1
	if d.chance(25) {
		surplus = d.IntN(len(g.shapes))
	}
	for shape, count := range g.counts {
		role := fmt.Sprintf("role-%d", shape)
		if surplus >= 0 {
			group.MinTaskMember(role, int32(count))
		}
		if shape == surplus {
			count += d.between(1, 100)
		}
		for i := range count {
			w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%03d", role, i)).Group("gang").Role(role).Req(g.shapes[shape].resources()).Obj())
		}
	}
	d.Shuffle(len(w.Pods), func(i, j int) { w.Pods[i], w.Pods[j] = w.Pods[j], w.Pods[i] })
	w.PodGroups = append(w.PodGroups, group.Obj())
	return instance{seed: seed, world: w, conf: packingConfs[seed%uint64(len(packingConfs))]}
}

// TestLargePacking draws gangs of 100 to 1,000 members of 2 to 8 sizes that fit, with 0% to 30% more nodes than they
// fill. Ours places at least 99% of them in the first session.
func TestLargePacking(t *testing.T) {
	b := newBench(t)
	missed, drawn := 0, largePackings.Of(t)
	for n := range uint64(drawn) {
		seed := n + 1
		if *randomSeed > 0 {
			seed = *randomSeed
		}
		d := newDice(seed, 7)
		g := drawLargeGang(d)
		in := g.instance(d, seed)
		began := time.Now()
		out := b.run(in, b.ours)
		t.Logf("seed %d: %d of %d members of %d shapes on %d nodes, %d%% more than needed: %d ms", seed, len(out.bound), g.members(), len(g.shapes),
			len(g.nodes), g.slack, time.Since(began).Milliseconds())
		for _, fault := range faults(in, out) {
			t.Errorf("-random.seed=%d: %s", seed, fault)
		}
		if len(out.bound) < g.members() {
			missed++
		}
	}
	if missed*100 > max(drawn, 100) {
		t.Errorf("%d of %d gangs that fit were not placed", missed, drawn)
	}
}
