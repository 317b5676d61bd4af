// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAMixtureIsTheLargestPart: with nodes that can be divided, there is room for so much of all tasks, and no more.
func TestAMixtureIsTheLargestPart(t *testing.T) {
	type kind struct {
		cpu   float64
		count int
	}
	for name, tt := range map[string]struct {
		kinds []kind
		nodes []float64
		want  float64
	}{
		"two kinds that fill a node together": {[]kind{{6, 10}, {4, 10}}, slices.Repeat([]float64{10}, 5), 0.5},
		"one of each kind needs a node":       {[]kind{{6, 10}, {5, 10}}, slices.Repeat([]float64{10}, 10), 2. / 3},
		"nodes of two sizes":                  {[]kind{{7, 2}, {3, 2}}, []float64{10, 10}, 1},
		"a node is divided":                   {[]kind{{3, 4}, {2, 3}}, []float64{7, 7}, 8. / 11},
		"no room for one kind":                {[]kind{{11, 1}, {1, 1}}, []float64{10}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Problem{}
			for _, k := range tt.kinds {
				p.Kinds = append(p.Kinds, Kind{Request: []float64{k.cpu}, Count: k.count, Role: -1})
				p.Wanted += k.count
			}
			for _, cpu := range tt.nodes {
				p.Nodes = append(p.Nodes, Node{Room: []float64{cpu}, Slots: 110, Takes: slices.Repeat([]bool{true}, len(p.Kinds))})
			}
			steps := mostSteps
			m := p.mix(&steps)
			if m == nil || !m.sound {
				t.Fatalf("no mixture: %+v", m)
			}
			if math.Abs(m.portion-tt.want) > 1e-5 || math.Abs(m.bound()-tt.want) > 1e-5 {
				t.Errorf("room for %.4f of all, bounded by %.4f; want %.4f", m.portion, m.bound(), tt.want)
			}
		})
	}
}

// TestAMixtureFillsAllButAFewNodes: a node is divided for each kind at the most, and what the parts hold is what there is room for.
func TestAMixtureFillsAllButAFewNodes(t *testing.T) {
	for seed := range uint64(40) {
		d := rand.New(rand.NewPCG(seed, 3))
		p := draw(d, layouts[seed%4], 0).known(d)
		steps := mostSteps
		m := p.mix(&steps)
		if m == nil {
			t.Fatalf("seed %d: no mixture", seed)
		}
		held, divided := make([]float64, len(p.Kinds)), 0
		filled := make([]float64, len(m.groups))
		for _, part := range m.parts() {
			if part.nodes < -1e-6 {
				t.Errorf("seed %d: %f nodes of group %d", seed, part.nodes, part.group)
			}
			filled[part.group] += part.nodes
			if math.Abs(part.nodes-math.Round(part.nodes)) > whole {
				divided++
			}
			for k, count := range part.taken {
				held[k] += float64(count) * part.nodes
			}
		}
		if divided > 2*len(p.Kinds) {
			t.Errorf("seed %d: %d parts of nodes, of %d kinds", seed, divided, len(p.Kinds))
		}
		for g, nodes := range filled {
			if math.Abs(nodes-float64(len(m.groups[g].nodes))) > 1e-6 {
				t.Errorf("seed %d: %f of the %d nodes of group %d are filled", seed, nodes, len(m.groups[g].nodes), g)
			}
		}
		for k, count := range p.counts() {
			if part := min(m.portion, 1) * float64(count); held[k] < part-1e-3 {
				t.Errorf("seed %d: room for %f of kind %d, want %f", seed, held[k], k, part)
			}
		}
	}
}
