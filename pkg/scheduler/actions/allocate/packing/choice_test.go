// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"testing"
)

// TestAChoiceOfTasks: If there are more tasks than needed, any that fit are taken, as long as each role gets its
// minimum.
func TestAChoiceOfTasks(t *testing.T) {
	type sized struct {
		role int
		cpu  float64
		port string
	}
	tests := map[string]struct {
		tasks  []sized
		nodes  []float64
		wanted int
		roles  []int
		want   Answer
	}{
		"all":                                {[]sized{{-1, 5, ""}, {-1, 3, ""}}, []float64{4, 6}, 2, nil, Fits},
		"not all fit":                        {[]sized{{-1, 5, ""}, {-1, 3, ""}}, []float64{6}, 2, nil, Impossible},
		"one that fits nowhere is left out":  {[]sized{{-1, 9, ""}, {-1, 5, ""}, {-1, 3, ""}}, []float64{4, 6}, 2, nil, Fits},
		"one in the others' way is left out": {[]sized{{-1, 6, ""}, {-1, 3, ""}, {-1, 3, ""}}, []float64{6}, 2, nil, Fits},
		"a role that lacks one takes the room of another": {
			[]sized{{0, 5, ""}, {0, 3, ""}, {0, 2, ""}, {1, 2, ""}}, []float64{5, 3, 2}, 3, []int{2, 1}, Fits,
		},
		"roles need more than is wanted":        {[]sized{{0, 3, ""}, {0, 3, ""}, {1, 1, ""}}, []float64{7}, 1, []int{1, 1}, Fits},
		"a role cannot get its minimum":         {[]sized{{1, 4, ""}, {0, 3, ""}}, []float64{3}, 1, []int{0, 1}, Impossible},
		"one host port, two nodes":              {[]sized{{-1, 3, "p"}, {-1, 2, "p"}, {-1, 1, "q"}}, []float64{6, 2}, 3, nil, Fits},
		"one host port, one node":               {[]sized{{-1, 3, "p"}, {-1, 2, "p"}}, []float64{6}, 2, nil, Impossible},
		"one host port, and one is wanted":      {[]sized{{-1, 3, "p"}, {-1, 2, "p"}}, []float64{2}, 1, nil, Fits},
		"no node":                               {[]sized{{-1, 3, ""}, {-1, 2, ""}}, nil, 1, nil, Impossible},
		"more are wanted than there are":        {[]sized{{-1, 3, ""}, {-1, 2, ""}}, []float64{9}, 3, nil, Impossible},
		"a large task is not in a choice's way": {[]sized{{-1, 8, ""}, {-1, 1, ""}, {-1, 1, ""}, {-1, 1, ""}}, []float64{8}, 3, nil, Fits},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &Problem{Wanted: tt.wanted, Roles: tt.roles}
			for _, task := range tt.tasks {
				k := TaskClass{Request: []float64{task.cpu}, Count: 1, Role: task.role}
				p.Classes = append(p.Classes, k)
			}
			for l, task := range tt.tasks {
				for r, other := range tt.tasks {
					if task.port != "" && task.port == other.port {
						p.Exclude(l, r)
					}
				}
			}
			for _, cpu := range tt.nodes {
				takes := make([]bool, len(p.Classes))
				for k := range takes {
					takes[k] = true
				}
				p.Nodes = append(p.Nodes, Node{Room: []float64{cpu}, Slots: 10, Takes: takes})
			}
			plan, got, _ := p.Solve(1000)
			if got != tt.want {
				t.Fatalf("answer %d, want %d", got, tt.want)
			}
			if got == Fits {
				if err := check(p, plan); err != nil {
					t.Errorf("%v: %v", plan, err)
				}
			}
		})
	}
}

// TestManyKindsThatDoNotFitTogetherAreRefuted: Sums and each class alone leave room, and a node can be filled in too
// many ways for a search.
func TestManyKindsThatDoNotFitTogetherAreRefuted(t *testing.T) {
	p := &Problem{Wanted: 64}
	for i := range 16 {
		k := TaskClass{Request: []float64{5400 + 10*float64(i)}, Count: 52 / 12, Role: -1}
		if i < 4 {
			k = TaskClass{Request: []float64{17000 + 50*float64(i)}, Count: 3, Role: -1}
		} else if i < 8 {
			k.Count++
		}
		p.Classes = append(p.Classes, k)
	}
	for range 16 {
		n := Node{Room: []float64{32000}, Slots: 110}
		for range p.Classes {
			n.Takes = append(n.Takes, true)
		}
		p.Nodes = append(p.Nodes, n)
	}
	if answer, used := p.Refute(); answer != Impossible || used > 2000 {
		t.Errorf("answer %d after %d steps; want %d after few", answer, used, Impossible)
	}
	p.Wanted = 56
	if answer, _ := p.Refute(); answer == Impossible {
		t.Error("56 of them are refuted; 12 large ones and 44 others fit")
	}
}

// TestAChoiceThatHasNoRoomIsRefuted: 64 of 70 tasks of 16 classes are needed, some of each role. The smallest tasks
// that suffice have no room.
func TestAChoiceThatHasNoRoomIsRefuted(t *testing.T) {
	p := &Problem{Wanted: 64, Roles: []int{10, 40}}
	for i := range 16 {
		k := TaskClass{Request: []float64{5400 + 10*float64(i), 8}, Count: 4, Role: 1}
		if i < 4 {
			k = TaskClass{Request: []float64{17000 + 50*float64(i), 8}, Count: 3, Role: 0}
		} else if i < 14 {
			k.Count = 5
		}
		p.Classes = append(p.Classes, k)
	}
	for range 16 {
		n := Node{Room: []float64{32000, 64}, Slots: 110}
		for range p.Classes {
			n.Takes = append(n.Takes, true)
		}
		p.Nodes = append(p.Nodes, n)
	}
	if answer, used := p.Refute(); answer != Impossible || used > 20_000 {
		t.Errorf("answer %d after %d steps; want %d after few", answer, used, Impossible)
	}
	p.Roles[0] = 0 // Without this role, each node takes five.
	if answer, _ := p.Refute(); answer == Impossible {
		t.Error("without the large ones they are refuted, too; 58 small ones and 6 large ones fit")
	}
}
