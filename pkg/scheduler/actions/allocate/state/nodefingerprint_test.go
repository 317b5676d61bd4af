// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// nodeCache is an allocate action's cache of the fingerprints of nodes a, b and c.
type nodeCache struct {
	Fingerprinter
	nodes []*api.NodeInfo
	// computed counts the fingerprints that were computed.
	computed int
	// untouched reports that the session has changed no node.
	untouched bool
}

func newNodeCache(t *testing.T) *nodeCache {
	r := &nodeCache{Fingerprinter: Fingerprinter{crossSession: crosssession.New()}}
	for _, name := range []string{"a", "b", "c"} {
		info := api.NewNodeInfo(schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "4", "pods": "10"}).Obj())
		placeOn(t, info, "running-"+name, api.Running)
		r.nodes = append(r.nodes, info)
	}
	return r
}

// of returns the fingerprint of the node at the index, and checks that it equals a newly computed one.
func (r *nodeCache) of(t *testing.T, node int32) uint64 {
	t.Helper()
	compute := func(number uint64) uint64 { return r.makeNode(r.nodes[node], number) }
	got := r.Fingerprinter.crossSession.Nodes.FingerprintOf(node, r.nodes, !r.untouched, func(number uint64) uint64 { r.computed++; return compute(number) })
	if want := compute(r.Fingerprinter.crossSession.Nodes.NumberOf(node, r.nodes)); got != want {
		t.Errorf("the fingerprint of node %s is %d, want %d, that of the node as it is", r.nodes[node].Name, got, want)
	}
	return got
}

// session begins a session.
func (r *nodeCache) session() {
	r.Fingerprinter.crossSession.BeginSession()
	r.computed = 0
}

func placeOn(t *testing.T, info *api.NodeInfo, pod string, status api.TaskStatus) *api.TaskInfo {
	t.Helper()
	task := api.NewTaskInfo(schedtest.MakePod().Name(pod).UID(pod).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1"}).Obj())
	task.Status = status
	if err := info.AddTask(task); err != nil {
		t.Fatal(err)
	}
	return task
}

// nodeSteps are changes of a node in two sessions: before and after the first session computes the node's fingerprint,
// and before the second session needs it. again reports whether the second session reuses the fingerprint.
type nodeSteps struct {
	before, after, next func(t *testing.T, info *api.NodeInfo)
	again               bool
}

// anotherOf places a task in the first session, and another task of the same size in the second. Between the sessions,
// the first task is removed.
func anotherOf(status api.TaskStatus) nodeSteps {
	return nodeSteps{
		before: func(t *testing.T, info *api.NodeInfo) { placeOn(t, info, "first", status) },
		after:  func(t *testing.T, info *api.NodeInfo) { remove(t, info, taskOf(info, "first")) },
		next:   func(t *testing.T, info *api.NodeInfo) { placeOn(t, info, "second", status) },
	}
}

// TestANodeIsRememberedAsLongAsItIsTheSame checks that a fingerprint is reused while its node is unchanged, and that
// it is always the fingerprint of the current node.
func TestANodeIsRememberedAsLongAsItIsTheSame(t *testing.T) {
	tests := map[string]nodeSteps{
		"nothing happens": {again: true},
		"a task is placed and taken back": {again: true, after: func(t *testing.T, info *api.NodeInfo) {
			remove(t, info, placeOn(t, info, "new", api.Allocated))
		}},
		"a task is placed": {next: func(t *testing.T, info *api.NodeInfo) { placeOn(t, info, "new", api.Allocated) }},
		"a task waits":     {next: func(t *testing.T, info *api.NodeInfo) { placeOn(t, info, "new", api.Pipelined) }},
		"a task that the sums do not count is there": {next: func(_ *testing.T, info *api.NodeInfo) {
			info.Tasks["new"] = &api.TaskInfo{}
		}},
		"an idle GPU is gone":               {next: func(_ *testing.T, info *api.NodeInfo) { info.Idle.ScalarResources["nvidia.com/gpu"]-- }},
		"some is released":                  {next: func(_ *testing.T, info *api.NodeInfo) { info.Releasing.MilliCPU++ }},
		"some is promised":                  {next: func(_ *testing.T, info *api.NodeInfo) { info.Pipelined.Memory++ }},
		"it takes fewer pods":               {next: func(_ *testing.T, info *api.NodeInfo) { info.Allocatable.MaxTaskNum-- }},
		"it is measured":                    {next: measure},
		"it is measured again":              {before: measure, next: measure},
		"it is oversubscribed":              {next: func(_ *testing.T, info *api.NodeInfo) { info.OversubscriptionNode = true }},
		"its jobs are evicted":              {next: func(_ *testing.T, info *api.NodeInfo) { info.OfflineJobEvicting = true }},
		"another object has its place":      {next: func(_ *testing.T, info *api.NodeInfo) { info.Node = info.Node.DeepCopy() }},
		"another task of the size is there": anotherOf(api.Allocated),
		"another task of the size waits":    anotherOf(api.Pipelined),
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newNodeCache(t)
			do := func(step func(*testing.T, *api.NodeInfo)) {
				if step != nil {
					step(t, r.nodes[1])
				}
			}
			r.session()
			do(tt.before)
			first := r.of(t, 1)
			do(tt.after)
			r.session()
			do(tt.next)
			if second := r.of(t, 1); (second == first) != tt.again || (r.computed == 0) != tt.again {
				t.Errorf("the fingerprint is the same: %t, and was computed %d times; want the same and not computed: %t", second == first, r.computed, tt.again)
			}
		})
	}
}

// TestACopyIsComparedThatASessionHadChanged checks that the fingerprint of a node that a session had changed is not
// reused when the next session gets the unchanged node. A task on the node was evicted before the fingerprint was
// computed.
func TestACopyIsComparedThatASessionHadChanged(t *testing.T) {
	r := newNodeCache(t)
	info := r.nodes[1]
	victim := taskOf(info, "running-b").Clone()
	become := func(status api.TaskStatus) {
		t.Helper()
		victim.Status = status
		if err := info.UpdateTask(victim); err != nil {
			t.Fatal(err)
		}
	}
	r.session()
	become(api.Releasing)
	evicted := r.of(t, 1)
	become(api.Running)
	r.untouched = true
	var given uint64
	for _, computed := range []int{1, 0} {
		r.session()
		if given = r.of(t, 1); given == evicted || r.computed != computed {
			t.Errorf("the fingerprint is that of the evicted task: %t, and was computed %d times; want another, computed %d times", given == evicted, r.computed, computed)
		}
	}
	r.session()
	r.untouched = false
	become(api.Releasing)
	if got := r.of(t, 1); got == given {
		t.Error("the fingerprint of a node that the session has changed is the one of before")
	}
}

func measure(_ *testing.T, info *api.NodeInfo) {
	if info.ResourceUsage == nil {
		info.ResourceUsage = &api.NodeUsage{}
	}
	info.ResourceUsage.MetricsTime = info.ResourceUsage.MetricsTime.Add(time.Second)
}

func remove(t *testing.T, info *api.NodeInfo, task *api.TaskInfo) {
	t.Helper()
	if err := info.RemoveTask(task); err != nil {
		t.Fatal(err)
	}
}

func taskOf(info *api.NodeInfo, name string) *api.TaskInfo {
	for _, task := range info.Tasks {
		if task.Name == name {
			return task
		}
	}
	return nil
}

// TestNodesAreRememberedByName checks that fingerprints are found by node name when other nodes before it are added
// or removed, and are dropped when a session does not need them.
func TestNodesAreRememberedByName(t *testing.T) {
	r := newNodeCache(t)
	all := r.nodes
	var want []uint64
	r.session()
	for node := range int32(3) {
		want = append(want, r.of(t, node))
	}
	r.session()
	r.nodes = all[1:]
	if got := []uint64{r.of(t, 0), r.of(t, 1)}; got[0] != want[1] || got[1] != want[2] || r.computed > 0 {
		t.Errorf("without the first node the fingerprints are %v, of which %d were computed, want the former %v", got, r.computed, want[1:])
	}
	r.session()
	r.nodes = all
	if got := []uint64{r.of(t, 0), r.of(t, 1), r.of(t, 2)}; got[0] == want[0] || got[1] != want[1] || got[2] != want[2] || r.computed != 1 {
		t.Errorf("with the first node again the fingerprints are %v, of which %d were computed, want another first one and then %v", got, r.computed, want[1:])
	}
	r.session()
	r.session()
	if got := r.of(t, 2); got == want[2] || r.computed != 1 {
		t.Errorf("a node that a session did not ask for has its fingerprint still")
	}
}
