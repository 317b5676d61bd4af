// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"testing"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestHowManyNodesAreLookedFor checks the sample size: only classes with few tasks, in a session with many such
// classes, are filtered on a sample of nodes.
func TestHowManyNodesAreLookedFor(t *testing.T) {
	options.Default() // This test may run before all others of the package.
	const nodes = 1000
	all := &nodeset.Set{Nodes: make([]int32, nodes)}
	sample := int(util.CalculateNumOfFeasibleNodesToFind(nodes))
	if sample*2 > nodes || sample*4 < nodes {
		t.Fatalf("a sample is %d of %d nodes: samples for 2 tasks must be less than all nodes, and for 4 tasks all", sample, nodes)
	}
	task := api.NewTaskInfo(schedtest.MakePod().Name("p").Obj())
	tests := map[string]struct {
		// expected is the number of tasks of the class, and classes the number of rare classes that were filtered
		// before.
		expected, classes int
		want              int
	}{
		"the first of rare classes":                  {expected: 1, classes: 0, want: nodes},
		"the last for which there are looks":         {expected: 1, classes: maxRareLooks/nodes - 1, want: nodes},
		"one more":                                   {expected: 1, classes: maxRareLooks / nodes, want: sample},
		"one with two tasks":                         {expected: 2, classes: maxRareLooks / nodes, want: 2 * sample},
		"one whose samples are all nodes":            {expected: 4, classes: maxRareLooks / nodes, want: nodes},
		"one of which it is not known how many come": {expected: 0, classes: maxRareLooks / nodes, want: nodes},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &sampler{all: all}
			looked := func(expected int) int { return s.enough(all, &ClassResults{layers: &layers{}, task: task}, expected) }
			for range maxRareLooks { // These classes are not rare.
				looked(4)
			}
			for range tt.classes {
				looked(1)
			}
			if got := looked(tt.expected); got != tt.want {
				t.Errorf("%d nodes are looked for, want %d", got, tt.want)
			}
		})
	}
}
