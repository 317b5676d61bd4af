// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const things v1.ResourceName = "example.com/thing"

// thingCounter counts a resource, "example.com/thing". It supplies the capacity of nodes itself, and reads the use of
// pods from an annotation.
type thingCounter struct {
	all     map[string]int64
	broken  map[string]int64
	changed map[string]bool
}

func (*thingCounter) CountPod(pod *v1.Pod) {
	requests := maps.Clone(pod.Spec.Containers[0].Resources.Requests)
	delete(requests, things)
	if n := thingsOf(pod); n > 0 {
		requests[things] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	pod.Spec.Containers[0].Resources.Requests = requests
}

func (c *thingCounter) CountNode(node *v1.Node, pods iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64) {
	left := c.all[node.Name]
	for pod := range pods {
		left -= thingsOf(pod)
	}
	if broken := c.broken[node.Name]; broken > 0 { // all broken things are in use
		left += broken
		return map[v1.ResourceName]int64{things: left}, map[v1.ResourceName]int64{things: c.all[node.Name]}
	}
	return map[v1.ResourceName]int64{things: left}, map[v1.ResourceName]int64{things: c.all[node.Name]}
}

func (*thingCounter) Names() []v1.ResourceName { return []v1.ResourceName{things} }

func (c *thingCounter) ChangedNodes() []string {
	changed := slices.Collect(maps.Keys(c.changed))
	clear(c.changed)
	return changed
}

func thingsOf(pod *v1.Pod) int64 {
	n, _ := strconv.ParseInt(pod.Annotations["things"], 10, 64)
	return n
}

func thingNode(says string) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "pods": "10", string(things): says})
}

func withThings(i int, n, claims string) *schedtest.PodBuilder {
	return schedtest.MakePod().Name("p"+strconv.Itoa(i)).Group("g").Req(schedtest.Resources{"cpu": "1", string(things): claims}).Annotation("things", n)
}

// idleThings returns the idle things on the node in the next session, and on a copy of that node.
func idleThings(w *harness) (idle, ofCopy int64) {
	whole := w.cache.Snapshot()
	given, _, _ := w.cache.SessionSnapshot()
	if whole.Nodes["n"].Idle.ScalarResources[things] != given.Nodes["n"].Idle.ScalarResources[things] {
		w.t.Error("snapshots differ")
	}
	return int64(given.Nodes["n"].Idle.ScalarResources[things] / 1000), int64(given.Nodes["n"].Clone().Idle.ScalarResources[things] / 1000)
}

// TestSumsOfACounter checks that sessions see the counter's amounts, whatever nodes and pods report, as soon as the
// counter changes them.
func TestSumsOfACounter(t *testing.T) {
	tests := map[string]struct {
		then func(w *harness, c *thingCounter)
		want int64
	}{
		"at first":       {func(*harness, *thingCounter) {}, 5},
		"a node changes": {func(w *harness, _ *thingCounter) { w.add(thingNode("7").Label("new", "").Obj()) }, 5},
		"a node changes, seen as it is": {func(w *harness, _ *thingCounter) {
			w.cache.books.Nodes.Show(thingNode("7").Label("new", "").Obj())
		}, 5},
		"a pod comes": {func(w *harness, _ *thingCounter) { w.add(withThings(1, "2", "0").Node("n").Phase(v1.PodRunning).Obj()) }, 3},
		"a pod goes":  {func(w *harness, _ *thingCounter) { w.remove(withThings(0, "3", "100").Obj()) }, 8},
		"there are fewer": {func(_ *harness, c *thingCounter) {
			c.all["n"], c.changed["n"] = 4, true
		}, 1},
		"there are none any more": {func(_ *harness, c *thingCounter) {
			c.all["n"], c.changed["n"] = 3, true
		}, 0},
		"what pods have is broken": {func(_ *harness, c *thingCounter) {
			c.all["n"], c.broken["n"], c.changed["n"] = 6, 2, true
		}, 5},
		"what was broken is whole, unseen": {func(w *harness, c *thingCounter) {
			c.all["n"], c.broken["n"], c.changed["n"] = 6, 2, true
			idleThings(w)
			c.all["n"], c.broken["n"] = 8, 0
		}, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				c := &thingCounter{all: map[string]int64{"n": 8}, broken: map[string]int64{}, changed: map[string]bool{}}
				w.cache.books.Nodes.Sums.Use(c)
				w.add(thingNode("100").Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), withThings(0, "3", "100").Node("n").Phase(v1.PodRunning).Obj())
				if idle, _ := idleThings(w); idle != 5 {
					t.Errorf("idle is %d at first, want 5", idle)
				}
				tt.then(w, c)
				if idle, ofCopy := idleThings(w); idle != tt.want || ofCopy != tt.want {
					t.Errorf("idle is %d and %d of a copy, want %d", idle, ofCopy, tt.want)
				}
			})
		})
	}
}

// TestASumIsRightWhereAMemberIsReserved checks that a node's amount is correct when a member is reserved on it. Since
// the session opened, the watch has shown the node again, which itself reports an amount of zero.
func TestASumIsRightWhereAMemberIsReserved(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.cache.books.Nodes.Sums.Use(&thingCounter{all: map[string]int64{"n": 8}})
		w.add(thingNode("0").Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), withThings(0, "3", "0").Obj())
		decided := w.decided("p0", "n")
		w.cache.books.Nodes.Show(thingNode("0").Label("new", "").Obj())
		if err := w.cache.AddToTransaction(decided, nil, nil, nil); err != nil {
			t.Error(err)
		}
		if got := w.cache.books.Nodes.Get("n").Idle.ScalarResources[things]; got != 5000 {
			t.Errorf("idle is %v, want 5000", got)
		}
		if got := taskNamed(w.cache, "p0").Status; got != api.Binding {
			t.Errorf("the pod is %s, want Binding", got)
		}
	})
}
