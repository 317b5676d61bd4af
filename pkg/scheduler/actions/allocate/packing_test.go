// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestPackingChoosesTasks: of a gang with a choice the largest that fit are taken, as long as every role gets its minimum.
func TestPackingChoosesTasks(t *testing.T) {
	type sized struct {
		role string
		cpu  float64
		port string
	}
	tests := map[string]struct {
		tasks  []sized
		nodes  []float64
		wanted int
		roles  map[string]int32
		want   []int
	}{
		"all": {
			tasks: []sized{{"w", 5, ""}, {"w", 3, ""}}, nodes: []float64{4, 6}, wanted: 2, want: []int{1, 0},
		},
		"not all fit": {
			tasks: []sized{{"w", 5, ""}, {"w", 3, ""}}, nodes: []float64{6}, wanted: 2,
		},
		"one that fits nowhere is left out": {
			tasks: []sized{{"w", 9, ""}, {"w", 5, ""}, {"w", 3, ""}}, nodes: []float64{4, 6}, wanted: 2, want: []int{leftOut, 1, 0},
		},
		"one that takes the others' room is left out": {
			tasks: []sized{{"w", 6, ""}, {"w", 3, ""}, {"w", 3, ""}}, nodes: []float64{6}, wanted: 2, want: []int{leftOut, 0, 0},
		},
		"no more than are wanted": {
			tasks: []sized{{"w", 3, ""}, {"w", 2, ""}, {"w", 1, ""}}, nodes: []float64{9}, wanted: 2, want: []int{0, 0, leftOut},
		},
		"a role that lacks one takes the room of another": {
			tasks: []sized{{"w", 5, ""}, {"w", 3, ""}, {"w", 2, ""}, {"l", 2, ""}}, nodes: []float64{5, 3, 2}, wanted: 3,
			roles: map[string]int32{"l": 1, "w": 2}, want: []int{0, 1, leftOut, 2},
		},
		"a role's minimum is more than is wanted": {
			tasks: []sized{{"w", 3, ""}, {"w", 3, ""}, {"l", 1, ""}}, nodes: []float64{7}, wanted: 1,
			roles: map[string]int32{"l": 1, "w": 1}, want: []int{0, 0, 0},
		},
		"tasks with one host port exclude each other": {
			tasks: []sized{{"w", 3, "p"}, {"w", 2, "p"}, {"w", 1, "q"}}, nodes: []float64{6, 2}, wanted: 3, want: []int{0, 1, 0},
		},
		"a role that cannot get its minimum": {
			tasks: []sized{{"l", 4, ""}, {"w", 3, ""}}, nodes: []float64{3}, wanted: 1, roles: map[string]int32{"l": 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := &packing{wanted: tt.wanted, roles: tt.roles, at: make([]int, len(tt.tasks))}
			shapes := map[sized]*shape{}
			fits := map[*shape]bool{}
			for _, task := range tt.tasks {
				if shapes[task] == nil {
					shapes[task] = &shape{}
					fits[shapes[task]] = true
				}
				k.tasks = append(k.tasks, packedTask{&api.TaskInfo{TaskRole: task.role}, []float64{task.cpu}, shapes[task], task.cpu, ports(task.port)})
			}
			for i, cpu := range tt.nodes {
				k.nodes = append(k.nodes, packedNode{node: int32(i), room: []float64{cpu}, slots: 10, ports: map[string]bool{}, fits: fits})
			}
			var got []int
			if k.search(0, 0) {
				got = k.at
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("nodes of the tasks (-want +got):\n%s", diff)
			}
		})
	}
}

func ports(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}
