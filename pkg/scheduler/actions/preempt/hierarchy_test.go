// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// hierarchyTiers are reclaimTiers in which queues have parents.
var hierarchyTiers = strings.Replace(reclaimTiers, "  - name: capacity\n", "  - name: capacity\n    enableHierarchy: true\n", 1)

// under makes the queue a child of the parent.
func under(parent string, queue *v1beta1.Queue) *v1beta1.Queue {
	queue.Spec.Parent = parent
	return queue
}

// capped limits the queue to the cpu.
func capped(cpu string, queue *v1beta1.Queue) *v1beta1.Queue {
	queue.Spec.Capability = schedtest.MakeQueue().Capability(schedtest.Resources{"cpu": cpu}).Obj().Spec.Capability
	return queue
}

// TestReclaimInHierarchies checks queues x and y under root, with the children x1, x2, y1 and y2. A queue deserves 4 CPUs and a
// parent 8, unless a case says otherwise. All nodes have 4 CPUs.
func TestReclaimInHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		// queues replace the queues of the same name.
		queues    []*v1beta1.Queue
		gangs     []gang
		evicted   []string
		pipelined int
		reason    string
	}{
		"a sibling gives back": {
			gangs: []gang{
				{name: "old", queue: "x1", min: 0, cpu: "4", on: each(4)},
				{name: "new", queue: "x2", min: 1, cpu: "4", pending: 1},
			},
			evicted: []string{"old-0"}, pipelined: 1,
		},
		"a sibling keeps what it deserves": {
			gangs: []gang{
				{name: "old", queue: "x1", min: 0, cpu: "4", on: each(1)},
				{name: "more", queue: "x2", min: 0, cpu: "4", on: []string{"n1"}},
				{name: "others", queue: "y1", min: 0, cpu: "4", on: []string{"n2"}},
				{name: "rest", queue: "y2", min: 0, cpu: "4", on: []string{"n3"}},
				{name: "new", queue: "x2", min: 1, cpu: "4", pending: 1},
			},
			reason: "queue x2 would use more than its share",
		},
		"a cousin gives back": {
			gangs: []gang{
				{name: "old", queue: "x1", min: 0, cpu: "4", on: each(4)},
				{name: "new", queue: "y1", min: 1, cpu: "4", pending: 1},
			},
			evicted: []string{"old-0"}, pipelined: 1,
		},
		"a sibling gives back before a cousin": {
			gangs: []gang{
				{name: "far", queue: "x1", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
				{name: "near", queue: "y1", min: 0, priority: 9, cpu: "4", on: []string{"n2", "n3"}},
				{name: "new", queue: "y2", min: 1, priority: 1, cpu: "4", pending: 1},
			},
			evicted: []string{"near-0"}, pipelined: 1,
		},
		"a sibling and a cousin give back together": {
			queues: []*v1beta1.Queue{under("x", deserving("x2", "8")), under("root", deserving("x", "12"))},
			gangs: []gang{
				{name: "near", queue: "x1", min: 0, cpu: "4", on: []string{"n0", "n1"}},
				{name: "far", queue: "y1", min: 0, cpu: "4", on: []string{"n2", "n3"}},
				{name: "new", queue: "x2", min: 2, cpu: "4", pending: 2},
			},
			evicted: []string{"far-0", "near-0"}, pipelined: 2,
		},
		"a cousin's parent reaches its capability": {
			queues: []*v1beta1.Queue{under("root", capped("8", deserving("y", "8"))), under("y", deserving("y2", "8"))},
			gangs: []gang{
				{name: "lent", queue: "x1", min: 0, cpu: "4", on: []string{"n0", "n1"}},
				{name: "more", queue: "x2", min: 0, cpu: "4", on: []string{"n2"}},
				{name: "own", queue: "y1", min: 0, cpu: "4", on: []string{"n3"}},
				{name: "new", queue: "y2", min: 1, cpu: "4", pending: 1},
			},
			evicted: []string{"lent-0"}, pipelined: 1,
		},
		"no pods of others go for a gang beyond its parent's capability": {
			queues: []*v1beta1.Queue{under("root", capped("4", deserving("y", "4"))), under("y", deserving("y2", "4"))},
			gangs: []gang{
				{name: "lent", queue: "x1", min: 0, cpu: "4", on: each(3)},
				{name: "own", queue: "y1", min: 0, cpu: "4", on: []string{"n3"}},
				{name: "new", queue: "y2", min: 1, cpu: "4", pending: 1},
			},
			reason: "reclaim cannot help",
		},
		"a gang that exceeds its parent's capability alone": {
			queues: []*v1beta1.Queue{under("root", capped("4", deserving("y", "4"))), under("y", deserving("y2", "8"))},
			gangs: []gang{
				{name: "lent", queue: "x1", min: 0, cpu: "4", on: each(4)},
				{name: "new", queue: "y2", min: 2, cpu: "4", pending: 2},
			},
			reason: "reclaim cannot help",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(4, "4"), c.gangs...)
			w.Queues = append(slices.Clone(c.queues),
				schedtest.MakeQueue().Name("root").Obj(), under("root", deserving("x", "8")), under("root", deserving("y", "8")),
				under("x", deserving("x1", "4")), under("x", deserving("x2", "4")), under("y", deserving("y1", "4")), under("y", deserving("y2", "4")))
			cl := newClusterOf(w, hierarchyTiers, NewReclaim(nil))
			defer cl.close()
			got := cl.session()
			if !slices.Equal(got.evicted, c.evicted) || len(got.pipelined) != c.pipelined {
				t.Errorf("evicted %v, want %v; members wait on %v, want %d; reason: %s", got.evicted, c.evicted, got.pipelined, c.pipelined, got.reasons["new"])
			}
			if !strings.Contains(got.reasons["new"], c.reason) {
				t.Errorf("gang new waits because of %q, want %q", got.reasons["new"], c.reason)
			}
		})
	}
}

// TestReclaimInHierarchiesComesToRest checks children of two parents that lend to each other, without pauses. Each queue has what
// it deserves in the end, and no more pods are evicted than that needs.
func TestReclaimInHierarchiesComesToRest(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "a", queue: "x1", min: 0, cpu: "4", on: each(4)},
		gang{name: "b", queue: "x2", min: 1, cpu: "4", pending: 1},
		gang{name: "c", queue: "y1", min: 1, cpu: "4", pending: 1},
		gang{name: "d", queue: "y2", min: 1, cpu: "4", pending: 1})
	w.Queues = []*v1beta1.Queue{
		schedtest.MakeQueue().Name("root").Obj(), under("root", deserving("x", "8")), under("root", deserving("y", "8")),
		under("x", deserving("x1", "4")), under("x", deserving("x2", "4")), under("y", deserving("y1", "4")), under("y", deserving("y2", "4")),
	}
	conf := strings.Replace(hierarchyTiers, "- plugins:\n  - name: evictionbackoff\n", "", 1)
	evicted, running := toRest(t, w, conf, NewReclaim(nil))
	if sum(evicted) != 3 || evicted["a"] != 3 {
		t.Errorf("evicted %v until rest, want three pods of a", evicted)
	}
	for _, gang := range []string{"a", "b", "c", "d"} {
		if running[gang] != 1 {
			t.Errorf("%d pods of gang %s run, want 1", running[gang], gang)
		}
	}
}
