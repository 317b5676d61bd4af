// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// TestOnlyProofsMergeClasses: a proof has a bounded number of classes. The input itself keeps all of them, because
// explanations name their requests.
func TestOnlyProofsMergeClasses(t *testing.T) {
	const kinds = maxRefutedClasses + 76
	largest := &api.NodeInfo{Allocatable: &api.Resource{MilliCPU: 32_000, Memory: 1 << 38}}
	in := &PackingInput{Run: &Run{Index: &nodeset.Index{Nodes: []*api.NodeInfo{largest}}}}
	for i := range kinds {
		in.Problem.Classes = append(in.Problem.Classes, packing.TaskClass{Request: []float64{17_000 + float64(i), 1 << 30}, Count: 1, Role: -1})
	}
	in.Problem.Wanted = kinds
	merged := in.merged()
	if got := len(merged.Problem.Classes); got > maxRefutedClasses {
		t.Errorf("the proof has %d classes, want at most %d", got, maxRefutedClasses)
	}
	if got := merged.Problem.Tasks(); got != kinds || merged.Problem.Wanted != kinds {
		t.Errorf("the proof has %d tasks of which %d are wanted, want %d", got, merged.Problem.Wanted, kinds)
	}
	if got := len(in.Problem.Classes); got != kinds {
		t.Errorf("the input has %d classes after the proof, want %d", got, kinds)
	}
}
