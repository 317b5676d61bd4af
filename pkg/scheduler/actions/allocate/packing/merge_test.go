// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSimilarClassesAreMerged: a merged class has the tasks of its classes, and their smallest requests.
func TestSimilarClassesAreMerged(t *testing.T) {
	class := func(count int, request ...float64) TaskClass {
		return TaskClass{Request: request, Count: count, Role: -1}
	}
	tests := map[string]struct {
		classes []TaskClass
		most    int
		want    []TaskClass
	}{
		"no more classes than allowed": {
			classes: []TaskClass{class(1, 5, 1), {Request: []float64{6, 1}, Count: 2, Role: 0, Alone: true}},
			most:    2,
			want:    []TaskClass{class(1, 5, 1), {Request: []float64{6, 1}, Count: 2, Role: 0, Alone: true}},
		},
		"neighbors by size": {
			classes: []TaskClass{class(1, 7, 1), class(2, 3, 2), class(4, 8, 2), class(8, 4, 1), class(16, 1, 0)},
			most:    3,
			want:    []TaskClass{class(18, 1, 0), class(9, 4, 1), class(4, 8, 2)},
		},
		"one more class than allowed": {
			classes: []TaskClass{class(1, 7, 1), class(2, 3, 2), class(4, 8, 2), class(8, 4, 1)},
			most:    3,
			want:    []TaskClass{class(10, 3, 1), class(5, 7, 1)},
		},
		"by the resource of which they request most": {
			classes: []TaskClass{class(1, 7, 60), class(2, 1, 65), class(4, 8, 70), class(8, 1, 80)},
			most:    2,
			want:    []TaskClass{class(5, 7, 60), class(10, 1, 65)},
		},
		"by the amount of this resource": {
			classes: []TaskClass{class(1, 1, 80), class(2, 2, 40), class(4, 3, 85), class(8, 4, 45)},
			most:    2,
			want:    []TaskClass{class(10, 2, 40), class(5, 1, 80)},
		},
		"by the amounts of other resources": {
			classes: []TaskClass{class(1, 5, 10), class(2, 5, 40), class(4, 5, 12), class(8, 5, 45)},
			most:    2,
			want:    []TaskClass{class(5, 5, 10), class(10, 5, 40)},
		},
		"without roles and exclusion": {
			classes: []TaskClass{{Request: []float64{3, 1}, Count: 1, Role: 1, Alone: true, Excludes: []bool{false, true}}, {Request: []float64{2, 2}, Count: 1, Role: 0, Excludes: []bool{true, false}}},
			most:    1,
			want:    []TaskClass{class(2, 2, 1)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &Problem{Classes: tt.classes, Wanted: 2, Roles: []int{1, 1}}
			want := &Problem{Classes: tt.want, Wanted: 2}
			if len(tt.classes) <= tt.most {
				want.Roles = p.Roles
			}
			if diff := cmp.Diff(want, p.Merged(tt.most, []float64{10, 100})); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}
