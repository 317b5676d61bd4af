// SPDX-License-Identifier: Apache-2.0

package books

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// session opens a session, which must equal the reference and a full copy of the books.
func session(h *history) {
	h.note("open a session")
	hyperNodes := api.NewHyperNodesInfo(nil)
	h.books.Lock()
	defer h.books.Unlock()
	if h.trusted {
		h.books.Copies().Trust(h.touched)
	}
	h.touched = noneTouched()
	h.given = h.books.Snapshot(hyperNodes)
	h.truth.requeue()
	full := h.books.Full(hyperNodes, true)
	want := h.truth.view(true)
	if diff := cmp.Diff(want, viewOf(h.given.Jobs, h.given.Nodes, true)); diff != "" {
		h.t.Errorf("a session's snapshot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, viewOf(full.Jobs, full.Nodes, true)); diff != "" {
		h.t.Errorf("a full snapshot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(full, h.given, wholeEntries); diff != "" {
		h.t.Errorf("a session's snapshot beside one in which everything is copied (-full +session):\n%s", diff)
	}
	if names := h.given.NodeList; len(names) != len(h.truth.nodes) || slices.ContainsFunc(names, func(name string) bool { return h.truth.nodes[name] == nil }) {
		h.t.Errorf("the nodes are %v, want %v", names, len(h.truth.nodes))
	}
}

// sessions opens a session, changes its copies, and opens the next session before anything else has changed the books.
func sessions(h *history) {
	session(h)
	for range h.rng.IntN(4) {
		changeCopies(h)
	}
	session(h)
}

func noneTouched() snapshot.Touched {
	return snapshot.Touched{Nodes: map[string]bool{}, Jobs: map[api.JobID]bool{}}
}

// wholeEntries compares all fields of jobs, nodes and tasks. Pod and Node objects must be the same pointers, because
// sessions share them with the books.
var wholeEntries = cmp.Options{
	cmp.Comparer(func(a, b *v1.Node) bool { return a == b }),
	cmp.Comparer(func(a, b *v1.Pod) bool { return a == b }),
	cmp.Comparer(sameAmounts),
	cmp.Comparer(cpuset.CPUSet.Equals),
	cmpopts.IgnoreUnexported(api.NodeInfo{}, api.JobInfo{}, api.SubJobInfo{}, api.TaskInfo{}),
}

// sameAmounts compares sums that may have been added in different orders.
func sameAmounts(a, b *api.Resource) bool {
	if a == nil || b == nil || len(a.ScalarResources) != len(b.ScalarResources) {
		return a == b
	}
	for name, value := range a.ScalarResources {
		if other, there := b.ScalarResources[name]; !there || amount(other) != amount(value) {
			return false
		}
	}
	return amount(a.MilliCPU) == amount(b.MilliCPU) && amount(a.Memory) == amount(b.Memory) && a.MaxTaskNum == b.MaxTaskNum
}
