// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"slices"
	"testing"
)

// TestProblemsOfOneKey: Results are cached by key, so problems have different keys if they differ in anything but the
// order of their nodes.
func TestProblemsOfOneKey(t *testing.T) {
	problem := func() *Problem {
		return &Problem{
			Classes: []TaskClass{
				{Request: []float64{3, 1}, Count: 2, Alone: true, Role: 0},
				{Request: []float64{2, 1}, Count: 2, Role: 1},
			},
			Nodes:  []Node{{Room: []float64{4, 2}, Slots: 2, Takes: []bool{true, true}}, {Room: []float64{3, 3}, Slots: 1, Takes: []bool{true, false}}},
			Wanted: 3, Roles: []int{1, 2},
		}
	}
	tests := map[string]struct {
		change func(*Problem)
		same   bool
	}{
		"nodes in another order":         {func(p *Problem) { p.Nodes[0], p.Nodes[1] = p.Nodes[1], p.Nodes[0] }, true},
		"more is wanted":                 {func(p *Problem) { p.Wanted = 4 }, false},
		"a role needs more":              {func(p *Problem) { p.Roles[0] = 2 }, false},
		"roles change places":            {func(p *Problem) { p.Roles[0], p.Roles[1] = 2, 1 }, false},
		"tasks of one kind have no role": {func(p *Problem) { p.Classes[0].Role = -1 }, false},
		"kinds change roles":             {func(p *Problem) { p.Classes[0].Role, p.Classes[1].Role = 1, 0 }, false},
		"there are more of a kind":       {func(p *Problem) { p.Classes[1].Count = 3 }, false},
		"a kind asks for more":           {func(p *Problem) { p.Classes[1].Request[1] = 2 }, false},
		"tasks of a kind share nodes":    {func(p *Problem) { p.Classes[0].Alone = false }, false},
		"tasks of another kind do":       {func(p *Problem) { p.Classes[0].Alone, p.Classes[1].Alone = false, true }, false},
		"a kind excludes another":        {func(p *Problem) { p.Exclude(0, 1) }, false},
		"tasks of a kind exclude others": {func(p *Problem) { p.Exclude(1, 1) }, false},
		"a node has less room":           {func(p *Problem) { p.Nodes[0].Room[0] = 3 }, false},
		"a node takes fewer tasks":       {func(p *Problem) { p.Nodes[0].Slots = 1 }, false},
		"a node takes another kind":      {func(p *Problem) { p.Nodes[1].Takes[1] = true }, false},
		"a node is gone":                 {func(p *Problem) { p.Nodes = p.Nodes[:1] }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changed := problem()
			tt.change(changed)
			if same := changed.Key() == problem().Key(); same != tt.same {
				t.Errorf("the keys are equal: %t, want %t", same, tt.same)
			}
		})
	}
}

// TestNoTwoSmallProblemsHaveOneKey checks that the part of a key for roles, classes, resources, exclusions or nodes
// cannot be read as another part. All values are as small as possible, so that counts in a key look like values.
func TestNoTwoSmallProblemsHaveOneKey(t *testing.T) {
	known := map[string]Problem{}
	visit := func(roles []int, classes []TaskClass, resources, nodes int) {
		p := Problem{Roles: roles, Classes: slices.Clone(classes)}
		for i := range p.Classes {
			p.Classes[i].Request = make([]float64, resources)
		}
		p.Nodes = slices.Repeat([]Node{{Room: make([]float64, resources), Takes: make([]bool, len(classes))}}, nodes)
		key := p.Key()
		if other, ok := known[key]; ok {
			t.Fatalf("%+v and %+v have one key", p, other)
		}
		known[key] = p
	}
	var kindLists [][]TaskClass
	for _, count := range []int{-1, 0, 1} {
		for _, alone := range []bool{false, true} {
			for excludes := range 3 {
				class := TaskClass{Count: count, Alone: alone, Excludes: make([]bool, excludes)}
				kindLists = append(kindLists, []TaskClass{class}, []TaskClass{class, {}})
			}
		}
	}
	for _, roles := range [][]int{nil, {-1}, {0}, {1}, {-1, 0}, {0, 0}, {1, 0}, {-1, 0, 0}, {1, 0, 0}} {
		for _, classes := range kindLists {
			for resources := range 2 {
				for nodes := range 10 {
					visit(roles, classes, resources, nodes)
				}
			}
		}
	}
}
