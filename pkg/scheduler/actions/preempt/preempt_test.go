// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestVictims(t *testing.T) {
	for _, c := range []struct {
		name      string
		nodes     map[string]string
		arguments string
		gangs     []gang
		evicted   []string
		// reason is a part of gang new's pending reason.
		reason string
	}{{
		name:  "idle resources beside the victims are used",
		nodes: map[string]string{"n0": "4", "n1": "4"},
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0"},
	}, {
		name:  "no pod is evicted if the minimum has no room even so",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "same", min: 1, priority: 9, cpu: "4", on: []string{"n1"}},
			{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
		},
		reason: "preemption cannot help: the cluster has room for 1 of 2 members even without the pods that may be evicted",
	}, {
		name:  "a gang is evicted whole rather than below its minimum",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "old", min: 2, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"old-0", "old-1"},
	}, {
		name:      "pods are evicted one by one if the configuration says so",
		nodes:     nodesOf(2, "4"),
		arguments: ", disruption: pod",
		gangs: []gang{
			{name: "old", min: 2, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"old-0"},
	}, {
		name:  "pods beyond a minimum go before a gang of lower priority",
		nodes: nodesOf(3, "4"),
		gangs: []gang{
			{name: "low", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "elastic", min: 1, priority: 5, cpu: "4", on: []string{"n1", "n2"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"elastic-0"},
	}, {
		name:  "the lowest priority goes first",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "higher", min: 1, priority: 5, cpu: "4", on: []string{"n0"}},
			{name: "lower", min: 1, priority: 1, cpu: "4", on: []string{"n1"}, age: time.Hour},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"lower-0"},
	}, {
		name:  "of equal priorities, the one that loses least work goes first",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "older", min: 1, priority: 1, cpu: "4", on: []string{"n0"}, age: time.Hour},
			{name: "younger", min: 1, priority: 1, cpu: "4", on: []string{"n1"}, age: time.Minute},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"younger-0"},
	}, {
		name:  "work that was saved is not lost",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "older", min: 1, priority: 1, cpu: "4", on: []string{"n0"}, age: time.Hour, annotations: map[string]string{CheckpointAnnotation: began.Add(-30 * time.Second).Format(time.RFC3339)}},
			{name: "younger", min: 1, priority: 1, cpu: "4", on: []string{"n1"}, age: time.Minute},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"older-0"},
	}, {
		name:  "a time in the future says nothing about saved work",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "older", min: 1, priority: 1, cpu: "4", on: []string{"n0"}, age: time.Hour, annotations: map[string]string{CheckpointAnnotation: began.Add(time.Hour).Format(time.RFC3339)}},
			{name: "younger", min: 1, priority: 1, cpu: "4", on: []string{"n1"}, age: time.Minute, annotations: map[string]string{CheckpointAnnotation: "yesterday"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"younger-0"},
	}, {
		name:  "a gang may wait before others are evicted for it",
		nodes: nodesOf(1, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, annotations: map[string]string{DelayAnnotation: "1000000h"}},
		},
		reason: "no pods are evicted for the gang before 2",
	}, {
		name:      "a gang cannot shorten the delay of the configuration",
		nodes:     nodesOf(1, "4"),
		arguments: ", delay: 1000000h",
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, annotations: map[string]string{DelayAnnotation: "1s"}},
		},
		reason: "because of a delay of 1000000h0m0s",
	}, {
		name:  "pods are evicted once the delay has passed",
		nodes: nodesOf(1, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, annotations: map[string]string{DelayAnnotation: "1s"}},
		},
		evicted: []string{"old-0"},
	}, {
		name:  "a delay that is no duration is reported",
		nodes: nodesOf(1, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, annotations: map[string]string{DelayAnnotation: "soon"}},
		},
		reason: `annotation preemption.volcano-prebind.io/delay is "soon", want a duration such as 5m`,
	}, {
		name:  "pods that free nothing of use are not evicted",
		nodes: map[string]string{"n0": "8", "n1": "4"},
		gangs: []gang{
			{name: "cheap", min: 0, priority: 1, cpu: "4", on: []string{"n1"}},
			{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n0", "n0"}},
			{name: "new", min: 1, priority: 9, cpu: "8", pending: 1},
		},
		evicted: []string{"dear-0", "dear-1"},
	}, {
		name:  "a small pod beside idle devices is seen",
		nodes: map[string]string{"n0": "8", "n1": "8"},
		gangs: []gang{
			{name: "small", min: 0, priority: 1, cpu: "1", on: []string{"n0"}},
			{name: "new", min: 2, priority: 9, cpu: "8", pending: 2},
		},
		evicted: []string{"small-0"},
	}, {
		name:  "equal priorities do not preempt",
		nodes: nodesOf(1, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 9, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		reason: "no pods may be evicted for the gang",
	}, {
		name:  "a gang that must not preempt does not",
		nodes: nodesOf(1, "4"),
		gangs: []gang{
			{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, never: true},
		},
		reason: "preemptionPolicy of its pods is Never",
	}, {
		name:  "nodes that never take the gang are left alone",
		nodes: nodesOf(2, "4"),
		gangs: []gang{
			{name: "cheap", min: 0, priority: 1, cpu: "4", on: []string{"n0"}},
			{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) { p.NodeSelector("name", "n1") }},
		},
		evicted: []string{"dear-0"},
	}} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, world(c.nodes, c.gangs...), c.arguments)
			if !slices.Equal(got.evicted, c.evicted) {
				t.Errorf("evicted %v, want %v", got.evicted, c.evicted)
			}
			wanted := 0
			if c.evicted != nil {
				wanted = c.gangs[len(c.gangs)-1].min
			}
			if len(got.pipelined) != wanted {
				t.Errorf("members wait for released resources on %v, want %d", got.pipelined, wanted)
			}
			if !strings.Contains(got.reasons["new"], c.reason) {
				t.Errorf("gang new waits because of %q, want %q", got.reasons["new"], c.reason)
			}
		})
	}
}

// TestRoomForAllGangsIsFound checks a cluster with exactly enough room for all gangs of high priority.
func TestRoomForAllGangsIsFound(t *testing.T) {
	gangs := []gang{}
	var on []string
	nodes := nodesOf(20, "4")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		on = append(on, name, name)
	}
	gangs = append(gangs, gang{name: "old", min: 0, priority: 1, cpu: "2", on: on})
	for i := range 8 {
		gangs = append(gangs, gang{name: fmt.Sprintf("new%d", i), min: 5, priority: 9, cpu: "2", pending: 5})
	}
	got := run(t, world(nodes, gangs...), "")
	if len(got.evicted) != 40 || len(got.pipelined) != 40 {
		t.Errorf("%d pods are evicted and %d members wait for their resources, want 40 and 40", len(got.evicted), len(got.pipelined))
	}
}

// TestASessionIsUnchangedIfNothingHelps checks that a fruitless search leaves victims and gangs as they were.
func TestASessionIsUnchangedIfNothingHelps(t *testing.T) {
	anti := func(p *schedtest.PodBuilder) { p.NodeSelector("name", "elsewhere") }
	got := run(t, world(nodesOf(2, "4"), gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: anti}), "")
	if diff := cmp.Diff(outcome{}.evicted, got.evicted); diff != "" || len(got.pipelined) > 0 {
		t.Errorf("evicted %v for %v, want none", got.evicted, got.pipelined)
	}
}

// TestTheRoomIsKeptForTheGang checks the sessions after an eviction, until the victims are gone. The gang keeps the
// released resources and the idle ones that it waits with, although another gang comes before it in the plugins' order.
// Nothing is evicted twice.
func TestTheRoomIsKeptForTheGang(t *testing.T) {
	w := world(nodesOf(3, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1"}},
		gang{name: "new", min: 3, priority: 9, cpu: "4", pending: 3})
	c := newCluster(w, fmt.Sprintf(tiers, ""))
	defer c.close()
	first := c.session()
	if want := []string{"old-0", "old-1"}; !slices.Equal(first.evicted, want) || len(first.pipelined) != 3 {
		t.Fatalf("evicted %v for %v, want %v for three members", first.evicted, first.pipelined, want)
	}
	rival := world(nil, gang{name: "rival", min: 1, priority: 99, cpu: "4", pending: 1})
	w.Pods, w.PodGroups, w.PriorityClasses = append(w.Pods, rival.Pods...), append(w.PodGroups, rival.PodGroups...), append(w.PriorityClasses, rival.PriorityClasses...)
	terminating(&w, 2)
	c.Load(w)
	second := c.session()
	if len(second.evicted)+len(second.bound) > 0 || len(second.pipelined) == 0 {
		t.Errorf("while the victims terminate, a session evicts %v, binds %v, and members wait on %v; want only members to wait", second.evicted, second.bound, second.pipelined)
	}
	w.Pods = w.Pods[2:]
	c.Load(w)
	third := c.session()
	if want := []string{"new-0", "new-1", "new-2"}; !slices.Equal(third.bound, want) {
		t.Errorf("without the victims, a session binds %v, want %v", third.bound, want)
	}
}

// TestTriesAreCounted checks the results that the observer receives for a gang that fits, a gang that needs evictions, and a
// gang that gets no room.
func TestTriesAreCounted(t *testing.T) {
	var got []string
	w := world(nodesOf(3, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(2), age: time.Hour},
		gang{name: "fits", min: 1, priority: 9, cpu: "1", pending: 1},
		gang{name: "needs", min: 2, priority: 8, cpu: "4", pending: 2},
		gang{name: "none", min: 1, priority: 7, cpu: "8", pending: 1})
	c := newClusterOf(w, simpleTiers, New(func(try Try) {
		got = append(got, fmt.Sprintf("%s %s for %s: %d pods, %d put back, lost %s, in %v", try.Action, try.Result, try.Gangs, len(try.Evicted), try.PutBack, try.Lost.Round(time.Hour), try.Places))
		if (try.Why != "") != (try.Result == Refused) || try.Took <= 0 {
			t.Errorf("the try with result %s has reason %q and took %s", try.Result, try.Why, try.Took)
		}
	}))
	defer c.close()
	c.actions = c.actions[1:]
	c.session()
	want := []string{
		"preempt not_needed for [ns/fits]: 0 pods, 0 put back, lost 0s, in []",
		"preempt evicted for [ns/needs]: 1 pods, 0 put back, lost 1h0m0s, in [the cluster]",
		"preempt refused for [ns/none]: 0 pods, 0 put back, lost 0s, in []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
}
