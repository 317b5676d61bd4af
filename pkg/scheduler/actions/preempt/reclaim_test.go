// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const reclaimTiers = `
actions: allocate, reclaim
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
  - name: conformance
- plugins:
  - name: ibcluster
  - name: predicates
  - name: coscheduling
  - name: capacity
  - name: nodeorder
`

// deserving returns a queue that deserves the cpu.
func deserving(name, cpu string) *v1beta1.Queue {
	return schedtest.MakeQueue().Name(name).Deserved(schedtest.Resources{"cpu": cpu}).Obj()
}

func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		name      string
		conf      string
		queues    []*v1beta1.Queue
		gangs     []gang
		evicted   []string
		pipelined int
		reason    string
	}{{
		name:   "a gang is evicted whole from a queue that uses more than it deserves",
		queues: []*v1beta1.Queue{deserving("a", "8"), deserving("b", "8")},
		gangs: []gang{
			{name: "older", queue: "a", min: 2, cpu: "4", on: []string{"n0", "n1"}, age: 2},
			{name: "younger", queue: "a", min: 2, cpu: "4", on: []string{"n2", "n3"}, age: 1},
			{name: "new", queue: "b", min: 2, cpu: "4", pending: 2},
		},
		evicted: []string{"younger-0", "younger-1"}, pipelined: 2,
	}, {
		name:   "idle resources beside the victims are used",
		queues: []*v1beta1.Queue{deserving("a", "8"), deserving("b", "8")},
		gangs: []gang{
			{name: "old", queue: "a", min: 0, cpu: "4", on: each(3)},
			{name: "new", queue: "b", min: 2, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0"}, pipelined: 2,
	}, {
		name:   "the queue that is furthest beyond its share loses first, whatever its priorities",
		queues: []*v1beta1.Queue{deserving("a", "4"), deserving("b", "4"), deserving("c", "2")},
		gangs: []gang{
			{name: "more", queue: "a", min: 0, priority: 9, cpu: "4", on: each(3)},
			{name: "less", queue: "c", min: 0, priority: 1, cpu: "4", on: []string{"n3"}},
			{name: "new", queue: "b", min: 1, cpu: "4", pending: 1},
		},
		evicted: []string{"more-0"}, pipelined: 1,
	}, {
		name:   "a queue keeps what it deserves, though each of its gangs might go alone",
		queues: []*v1beta1.Queue{deserving("a", "8"), deserving("b", "12")},
		gangs: []gang{
			{name: "one", queue: "a", min: 2, cpu: "4", on: []string{"n0", "n1"}},
			{name: "two", queue: "a", min: 2, cpu: "4", on: []string{"n2", "n3"}},
			{name: "new", queue: "b", min: 3, cpu: "4", pending: 3},
		},
		reason: "reclaim cannot help: the members do not fit even without the pods that may be evicted",
	}, {
		name:   "a gang that would use more than its queue deserves gets nothing",
		queues: []*v1beta1.Queue{deserving("a", "4"), deserving("b", "8")},
		gangs: []gang{
			{name: "old", queue: "a", min: 0, cpu: "4", on: each(4)},
			{name: "new", queue: "b", min: 3, cpu: "4", pending: 3},
		},
		reason: "reclaim cannot help: queue b would use more than its share",
	}, {
		name:   "a queue that is not reclaimable loses nothing",
		queues: []*v1beta1.Queue{notReclaimable(deserving("a", "4")), deserving("b", "8")},
		gangs: []gang{
			{name: "old", queue: "a", min: 0, cpu: "4", on: each(4)},
			{name: "new", queue: "b", min: 2, cpu: "4", pending: 2},
		},
		reason: "reclaim cannot help: no pods may be evicted for the gang",
	}, {
		name:   "pods of the gang's own queue are no victims",
		queues: []*v1beta1.Queue{deserving("a", "16")},
		gangs: []gang{
			{name: "old", queue: "a", min: 0, cpu: "4", on: each(3)},
			{name: "held", queue: "a", min: 0, cpu: "1", on: []string{"n3"}},
			{name: "new", queue: "a", min: 1, cpu: "4", pending: 1},
		},
		reason: "reclaim cannot help",
	}, {
		name:   "plugin gang lets only pods beyond a minimum go",
		conf:   strings.Replace(reclaimTiers, "    enableReclaimable: false\n", "", 1),
		queues: []*v1beta1.Queue{deserving("a", "4"), deserving("b", "12")},
		gangs: []gang{
			{name: "old", queue: "a", min: 2, cpu: "4", on: each(4)},
			{name: "new", queue: "b", min: 2, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0", "old-1"}, pipelined: 2,
	}, {
		name:   "plugin proportion says what a queue's share is",
		conf:   strings.Replace(reclaimTiers, "name: capacity", "name: proportion", 1),
		queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("a").Weight(1).Obj(), schedtest.MakeQueue().Name("b").Weight(1).Obj()},
		gangs: []gang{
			{name: "one", queue: "a", min: 2, cpu: "4", on: []string{"n0", "n1"}},
			{name: "two", queue: "a", min: 2, cpu: "4", on: []string{"n2", "n3"}},
			{name: "new", queue: "b", min: 2, cpu: "4", pending: 2},
		},
		evicted: []string{"one-0", "one-1"}, pipelined: 2,
	}} {
		t.Run(c.name, func(t *testing.T) {
			w := world(nodesOf(4, "4"), c.gangs...)
			w.Queues = c.queues
			conf := c.conf
			if conf == "" {
				conf = reclaimTiers
			}
			cl := newClusterOf(w, conf, NewReclaim(nil))
			defer cl.close()
			got := cl.session()
			if !slices.Equal(got.evicted, c.evicted) || len(got.pipelined) != c.pipelined {
				t.Errorf("evicted %v, want %v; members wait for released resources on %v, want %d; reason: %s", got.evicted, c.evicted, got.pipelined, c.pipelined, got.reasons["new"])
			}
			if !strings.Contains(got.reasons["new"], c.reason) {
				t.Errorf("gang new waits because of %q, want %q", got.reasons["new"], c.reason)
			}
		})
	}
}

func notReclaimable(queue *v1beta1.Queue) *v1beta1.Queue {
	no := false
	queue.Spec.Reclaimable = &no
	return queue
}
