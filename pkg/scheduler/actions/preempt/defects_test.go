// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// simpleTiers are tiers whose plugins choose victims by priority alone, so that results are shared between gangs.
var simpleTiers = strings.Replace(fmt.Sprintf(tiers, ""), "  - name: network-topology-aware\n", "", 1)

// each returns the nodes n0, n1 and so on.
func each(n int) (nodes []string) {
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	return nodes
}

// TestAFullQueueLosesOnlyWhatIsNeeded checks a gang whose queue is full while nodes are idle. Arithmetic on nodes does not
// see that, so all pods of the queue are candidates.
func TestAFullQueueLosesOnlyWhatIsNeeded(t *testing.T) {
	w := world(nodesOf(150, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "2", on: each(100)},
		gang{name: "new", min: 1, priority: 9, cpu: "1", pending: 1})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("full").Capability(schedtest.Resources{"cpu": "200"}).Obj())
	for _, pg := range w.PodGroups {
		pg.Spec.Queue = "full"
	}
	if got := run(t, w, ""); len(got.evicted) != 1 {
		t.Errorf("%d pods are evicted, want 1; reason: %s", len(got.evicted), got.reasons["new"])
	}
}

// TestOnlyThePodThatKeepsAMemberAwayGoes checks anti-affinity to pods on all nodes, one of which has to go.
func TestOnlyThePodThatKeepsAMemberAwayGoes(t *testing.T) {
	w := world(nodesOf(40, "4"),
		gang{name: "quiet", min: 0, priority: 1, cpu: "500m", on: each(40)},
		gang{name: "noisy", min: 0, priority: 1, cpu: "500m", on: each(40), pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "new", min: 1, priority: 9, cpu: "2", pending: 1, pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
			}}}})
		}})
	if got := run(t, w, ""); len(got.evicted) != 1 || !strings.HasPrefix(got.evicted[0], "noisy-") {
		t.Errorf("evicted %v, want one noisy pod; reason: %s", got.evicted, got.reasons["new"])
	}
}

// TestNoPodIsEvictedTwice checks two gangs of which the first takes a pod beyond the minimum of a running gang, and the
// second the rest of that gang.
func TestNoPodIsEvictedTwice(t *testing.T) {
	w := world(nodesOf(3, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
		gang{name: "new-a", min: 1, priority: 9, cpu: "1", pending: 1},
		gang{name: "new-b", min: 2, priority: 9, cpu: "4", pending: 2})
	got := runWith(t, w, simpleTiers)
	if want := []string{"old-0", "old-1", "old-2"}; !slices.Equal(got.evicted, want) {
		t.Errorf("evicted %v, want %v", got.evicted, want)
	}
}

// TestAHopelessGangDoesNotSpeakForOthers checks a gang with the pods of another one that got no room, but with a minimum
// of other roles.
func TestAHopelessGangDoesNotSpeakForOthers(t *testing.T) {
	w := world(nodesOf(2, "8"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(2)},
		gang{name: "held", min: 0, priority: 9, cpu: "4", on: each(2)},
		gang{name: "a", min: 2, priority: 9, cpu: "8"}, gang{name: "b", min: 2, priority: 9, cpu: "8"})
	for _, g := range []string{"a", "b"} {
		for i := range 2 {
			w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-big-%d", g, i)).Group(g).Role("big").Priority(9).Req(schedtest.Resources{"cpu": "8"}).Obj(),
				schedtest.MakePod().Name(fmt.Sprintf("%s-small-%d", g, i)).Group(g).Role("small").Priority(9).Req(schedtest.Resources{"cpu": "4"}).Obj())
		}
	}
	for _, pg := range w.PodGroups {
		switch pg.Name {
		case "a":
			pg.Spec.MinTaskMember = map[string]int32{"big": 2}
		case "b":
			pg.Spec.MinTaskMember = map[string]int32{"small": 2}
		}
	}
	got := runWith(t, w, simpleTiers)
	if want := []string{"old-0", "old-1"}; !slices.Equal(got.evicted, want) {
		t.Errorf("evicted %v, want %v; reason of b: %s", got.evicted, want, got.reasons["b"])
	}
}

// TestAGangThatFitsEvictsNothing checks that a gang that fits idle resources evicts nothing if preempt runs before
// allocate.
func TestAGangThatFitsEvictsNothing(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	c := newCluster(w, simpleTiers)
	defer c.close()
	slices.Reverse(c.actions)
	got := c.session()
	if len(got.evicted) > 0 || !slices.Equal(got.bound, []string{"new-0"}) {
		t.Errorf("evicted %v and bound %v, want new-0 bound and nothing evicted", got.evicted, got.bound)
	}
}

// TestMembersBeyondTheMinimumEvictNothing checks a gang with further members and one without requests.
func TestMembersBeyondTheMinimumEvictNothing(t *testing.T) {
	w := world(nodesOf(9, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(9)},
		gang{name: "new", min: 4, priority: 9, cpu: "4", pending: 9})
	w.Pods = append(w.Pods, schedtest.MakePod().Name("new-free").Group("new").Priority(9).Obj())
	if got := run(t, w, ""); len(got.evicted) != 3 {
		t.Errorf("%d pods are evicted, want 3 beside the member without requests", len(got.evicted))
	}
}

// TestTheQueuesRoomIsKeptForTheGang checks a gang that needs room in its queue and not on nodes, so that its members are
// not on the nodes of its victims. It is placed before a gang of higher priority that comes later.
func TestTheQueuesRoomIsKeptForTheGang(t *testing.T) {
	idle := func(p *schedtest.PodBuilder) { p.NodeSelector("pool", "idle") }
	w := world(nodesOf(8, "8"),
		gang{name: "old", min: 0, priority: 1, cpu: "8", on: each(4)},
		gang{name: "new", min: 4, priority: 9, cpu: "8", pending: 4, pod: idle})
	for i, node := range w.Nodes {
		if i >= 4 {
			node.Labels["pool"] = "idle"
		}
	}
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("team").Capability(schedtest.Resources{"cpu": "32"}).Obj())
	rival := world(nil, gang{name: "rival", min: 4, priority: 99, cpu: "8", pending: 4, pod: idle})
	for _, pg := range append(w.PodGroups, rival.PodGroups...) {
		pg.Spec.Queue = "team"
	}
	c := newCluster(w, strings.Replace(simpleTiers, "proportion", "capacity", 1))
	defer c.close()
	if first := c.session(); len(first.evicted) != 4 {
		t.Fatalf("%d pods are evicted, want 4; reason: %s", len(first.evicted), first.reasons["new"])
	}
	w.Pods, w.PodGroups, w.PriorityClasses = append(w.Pods[4:], rival.Pods...), append(w.PodGroups, rival.PodGroups...), append(w.PriorityClasses, rival.PriorityClasses...)
	c.Load(w)
	second := c.session()
	if want := []string{"new-0", "new-1", "new-2", "new-3"}; !slices.Equal(second.bound, want) {
		t.Errorf("without the victims, %v are bound, want %v", second.bound, want)
	}
}

func terminating(w *sessiontest.ClusterSpec, pods int) {
	for _, pod := range w.Pods[:pods] {
		pod.DeletionTimestamp = &schedtest.Created
	}
}
