// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// groupTiers are tiers with plugin coscheduling, which reads gang groups.
var groupTiers = strings.Replace(simpleTiers, "  - name: predicates\n", "  - name: predicates\n  - name: coscheduling\n", 1)

// groupWorld returns a cluster in which the gangs a and b are a gang group.
func groupWorld(nodes map[string]string, all ...gang) sessiontest.ClusterSpec {
	w := world(nodes, all...)
	for _, pg := range w.PodGroups {
		if pg.Name == "a" || pg.Name == "b" {
			pg.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/a","ns/b"]`}
		}
	}
	return w
}

func TestVictimsOfGangGroups(t *testing.T) {
	for _, c := range []struct {
		name      string
		gangs     []gang
		evicted   []string
		pipelined int
		reason    string
	}{{
		name: "room is made for all gangs",
		gangs: []gang{
			{name: "old", min: 0, priority: 1, cpu: "4", on: each(4)},
			{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
			{name: "b", min: 2, priority: 9, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0", "old-1", "old-2", "old-3"}, pipelined: 4,
	}, {
		name: "a gang that fits idle resources keeps them for the group",
		gangs: []gang{
			{name: "old", min: 0, priority: 1, cpu: "4", on: each(2)},
			{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
			{name: "b", min: 2, priority: 9, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0", "old-1"}, pipelined: 4,
	}, {
		name: "nothing is evicted if one gang gets no room",
		gangs: []gang{
			{name: "old", min: 0, priority: 1, cpu: "4", on: each(3)},
			{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
			{name: "b", min: 3, priority: 9, cpu: "4", pending: 3},
		},
		reason: "preemption cannot help: gang ns/b of its gang group: the cluster has room for 2 of 3 members even without the pods that may be evicted",
	}, {
		name: "nothing is evicted if one gang lacks pods",
		gangs: []gang{
			{name: "old", min: 0, priority: 1, cpu: "4", on: each(4)},
			{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
			{name: "b", min: 2, priority: 9, cpu: "4", pending: 1},
		},
		reason: "preemption cannot help: gang ns/b of its gang group cannot be placed now",
	}, {
		name: "a gang of the group is no victim",
		gangs: []gang{
			{name: "a", min: 1, priority: 1, cpu: "4", on: each(2)},
			{name: "old", min: 0, priority: 5, cpu: "4", on: []string{"n2", "n3"}},
			{name: "b", min: 2, priority: 9, cpu: "4", pending: 2},
		},
		evicted: []string{"old-0", "old-1"}, pipelined: 2,
	}, {
		name: "a gang of another group is a victim alone",
		gangs: []gang{
			{name: "a", min: 1, priority: 1, cpu: "4", on: each(1)},
			{name: "b", min: 2, priority: 1, cpu: "4", on: []string{"n1", "n2"}},
			{name: "old", min: 1, priority: 5, cpu: "4", on: []string{"n3"}},
			{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
		},
		evicted: []string{"a-0"}, pipelined: 1,
	}} {
		t.Run(c.name, func(t *testing.T) {
			got := runWith(t, groupWorld(nodesOf(4, "4"), c.gangs...), groupTiers)
			if !slices.Equal(got.evicted, c.evicted) || len(got.pipelined) != c.pipelined {
				t.Errorf("evicted %v, want %v; members wait for released resources on %v, want %d", got.evicted, c.evicted, got.pipelined, c.pipelined)
			}
			for _, name := range []string{"a", "b"} {
				if got.reasons[name] != "" && !strings.Contains(got.reasons[name], c.reason) {
					t.Errorf("gang %s waits because of %q, want %q", name, got.reasons[name], c.reason)
				}
			}
		})
	}
}

// TestAGangGroupKeepsItsRoom checks the sessions after evictions for a gang group of which one gang needs none. Both gangs
// are bound once the victims are gone, although another gang comes before them in the plugins' order.
func TestAGangGroupKeepsItsRoom(t *testing.T) {
	w := groupWorld(nodesOf(4, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(2)},
		gang{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
		gang{name: "b", min: 2, priority: 9, cpu: "4", pending: 2})
	c := newCluster(w, groupTiers)
	defer c.close()
	if first := c.session(); !slices.Equal(first.evicted, []string{"old-0", "old-1"}) {
		t.Fatalf("evicted %v, want old-0 and old-1; reasons: %v", first.evicted, first.reasons)
	}
	rival := world(nil, gang{name: "rival", min: 1, priority: 99, cpu: "4", pending: 1})
	w.Pods, w.PodGroups, w.PriorityClasses = append(w.Pods, rival.Pods...), append(w.PodGroups, rival.PodGroups...), append(w.PriorityClasses, rival.PriorityClasses...)
	terminating(&w, 2)
	c.Load(w)
	if second := c.session(); len(second.evicted)+len(second.bound) > 0 {
		t.Errorf("while the victims terminate, a session evicts %v and binds %v, want neither", second.evicted, second.bound)
	}
	w.Pods = w.Pods[2:]
	c.Load(w)
	third := c.session()
	if want := []string{"a-0", "a-1", "b-0", "b-1"}; !slices.Equal(third.bound, want) {
		t.Errorf("without the victims, a session binds %v, want %v; reasons: %v", third.bound, want, third.reasons)
	}
}

// TestAGroupWithoutRoomLeavesItsVictimsToOthers checks a gang that is tried after a gang group got no room, with the pods
// that had been evicted for the group's first gang.
func TestAGroupWithoutRoomLeavesItsVictimsToOthers(t *testing.T) {
	w := groupWorld(nodesOf(3, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(3)},
		gang{name: "a", min: 2, priority: 9, cpu: "4", pending: 2},
		gang{name: "b", min: 2, priority: 8, cpu: "4", pending: 2},
		gang{name: "new", min: 3, priority: 8, cpu: "4", pending: 3})
	got := runWith(t, w, groupTiers)
	if want := []string{"old-0", "old-1", "old-2"}; !slices.Equal(got.evicted, want) || len(got.pipelined) != 3 {
		t.Errorf("evicted %v for %v, want %v for three members of new; reason: %s", got.evicted, got.pipelined, want, got.reasons["new"])
	}
}
