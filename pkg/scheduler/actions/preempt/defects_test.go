// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
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
		gang{name: "old", queue: "full", min: 0, priority: 1, cpu: "2", on: each(100)},
		gang{name: "new", queue: "full", min: 1, priority: 9, cpu: "1", pending: 1})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("full").Capability(schedtest.Resources{"cpu": "200"}).Obj())
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

// TestOwnPodsAreNoVictimsOfOthers checks a gang whose running pods have a lower priority than its pending one. Another gang
// of the same priority, which is tried next, evicts none of them.
func TestOwnPodsAreNoVictimsOfOthers(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "a", min: 3, priority: 9, cpu: "4", on: each(2), pending: 1},
		gang{name: "b", min: 1, priority: 9, cpu: "4", pending: 1})
	one := int32(1)
	for _, pod := range w.Pods[:2] {
		pod.Spec.Priority = &one
	}
	if got := run(t, w, ""); len(got.evicted) > 0 {
		t.Errorf("evicted %v, want none", got.evicted)
	}
}

// TestPodsThatDoNotStartAreVictims checks a gang of which a pod is bound and does not run. If the plan fails, the pod is
// bound as before.
func TestPodsThatDoNotStartAreVictims(t *testing.T) {
	spec := func(cpu string) sessiontest.ClusterSpec {
		w := world(nodesOf(3, "4"),
			gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
			gang{name: "new", min: 2, priority: 9, cpu: cpu, pending: 2})
		w.Pods[2].Status.Phase = v1.PodPending
		return w
	}
	if got := run(t, spec("4"), ""); !slices.Equal(got.evicted, []string{"old-0", "old-1", "old-2"}) || len(got.pipelined) != 2 {
		t.Errorf("evicted %v for %v, want the whole gang for two members; reason: %s", got.evicted, got.pipelined, got.reasons["new"])
	}
	w := spec("4")
	nowhere := v1.PodAffinityTerm{TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "pod"}}}
	for _, pod := range w.Pods[3:] {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{nowhere}}}
	}
	c := newCluster(w, simpleTiers)
	defer c.close()
	ssn := c.scheduler.Open()
	defer ssn.Close()
	ssn.Run(c.actions...)
	if got := ssn.Jobs["ns/old"].TaskStatusIndex; len(got[api.Bound]) != 1 || len(got[api.Running]) != 2 || len(ssn.Evicts()) > 0 {
		t.Errorf("%d pods are bound and %d run, and %v are evicted; want 1, 2 and none", len(got[api.Bound]), len(got[api.Running]), ssn.Evicts())
	}
}

// TestAVictimsAntiAffinityEndsWithIt checks a pod of low priority whose anti-affinity keeps a gang of high priority away.
func TestAVictimsAntiAffinityEndsWithIt(t *testing.T) {
	for _, key := range []string{"name", "zone"} {
		jealous := func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"new": "yes"}},
			}}}})
		}
		node := map[string]string{"name": "n0", "zone": "n1"}[key]
		w := world(nodesOf(2, "8"),
			gang{name: "jealous", min: 0, priority: 1, cpu: "2", on: each(1), pod: jealous},
			gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) { p.Label("new", "yes").NodeSelector("name", node) }})
		for _, node := range w.Nodes {
			node.Labels["zone"] = "z"
		}
		if got := run(t, w, ""); !slices.Equal(got.evicted, []string{"jealous-0"}) {
			t.Errorf("anti-affinity by %s: evicted %v, want jealous-0; reason: %s", key, got.evicted, got.reasons["new"])
		}
	}
}

// TestGangsBeyondTheirQueuesCapabilityAreRefusedAtOnce checks gangs of unlike sizes whose minima do not fit into their queue
// even if it were empty.
func TestGangsBeyondTheirQueuesCapabilityAreRefusedAtOnce(t *testing.T) {
	w := world(nodesOf(4, "8"),
		gang{name: "old", queue: "small", min: 0, priority: 1, cpu: "4", on: each(4)},
		gang{name: "new", queue: "small", min: 3, priority: 9, cpu: "8", pending: 3})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": "20"}).Obj())
	if got := runWith(t, w, strings.Replace(simpleTiers, "  - name: proportion\n", "", 1)); len(got.evicted) == 0 {
		t.Errorf("no plugin limits queues, and no pods are evicted; reason: %s", got.reasons["new"])
	}
	got := runWith(t, w, strings.Replace(simpleTiers, "proportion", "capacity", 1))
	if want := "preemption cannot help: queue small has capability cpu 20, 24 requested"; len(got.evicted) > 0 || !strings.HasSuffix(got.reasons["new"], want) {
		t.Errorf("evicted %v; reason %q, want one that ends in %q", got.evicted, got.reasons["new"], want)
	}
}

// TestAnUndoneTrialLeavesNoVerdicts checks a gang that is tried after another one of equal members for which a pod with
// anti-affinity was evicted without success. The pod still keeps its members away, and is evicted for it.
func TestAnUndoneTrialLeavesNoVerdicts(t *testing.T) {
	term := func(key, label string) []v1.PodAffinityTerm {
		return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}}}
	}
	onN1 := func(p *schedtest.PodBuilder) { p.Label("new", "yes").NodeSelector("name", "n1") }
	w := world(nodesOf(2, "8"),
		gang{name: "jealous", min: 0, priority: 1, cpu: "2", on: each(1), pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("zone", "new")}})
		}},
		gang{name: "a", min: 2, priority: 9, cpu: "2", pending: 2, pod: onN1},
		gang{name: "b", min: 1, priority: 9, cpu: "2", pending: 1, pod: onN1})
	w.Pods[2].Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("name", "nobody")}}
	for _, node := range w.Nodes {
		node.Labels["zone"] = "z"
	}
	got := runWith(t, w, simpleTiers)
	if !slices.Equal(got.evicted, []string{"jealous-0"}) || got.pipelined["b-0"] != "n1" || len(got.pipelined) != 1 {
		t.Errorf("evicted %v for %v, want jealous-0 for b-0; reasons: %v", got.evicted, got.pipelined, got.reasons)
	}
}

// TestAFullQueueMakesRoomForALargeGang checks a gang that fits idle nodes, but whose queue is at its capability: as many pods
// of its queue are evicted as it has members, wherever they are. The first case evicts single pods, the second whole gangs.
func TestAFullQueueMakesRoomForALargeGang(t *testing.T) {
	const members = 64
	for name, tt := range map[string]struct {
		size, kept int // of the gangs of low priority; how many pods of higher priority the queue has
		want       int
		reason     string
	}{
		"gangs of one pod":          {size: 1, want: members},
		"gangs of eight":            {size: 8, want: members},
		"gangs of ten":              {size: 10, want: 70},
		"too many of high priority": {size: 1, kept: members + 1, reason: "preemption cannot help: queue q has no room for the gang even without the pods that may be evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			gangs := []gang{{name: "new", queue: "q", min: members, priority: 9, cpu: "1", pending: members}}
			add := func(name string, count, size int, priority int32) {
				for i := 0; i < count; i += size {
					g := gang{name: fmt.Sprintf("%s%03d", name, i), queue: "q", min: size, priority: priority, cpu: "1"}
					for k := range size {
						g.on = append(g.on, fmt.Sprintf("n%d", (i+k)%8))
					}
					gangs = append(gangs, g)
				}
			}
			add("low", 2*members-tt.kept, tt.size, 1)
			add("high", tt.kept, 1, 9)
			w := world(nodesOf(8, "64"), gangs...)
			for _, node := range w.Nodes {
				node.Status.Allocatable["pods"], node.Status.Capacity["pods"] = resource.MustParse("100"), resource.MustParse("100")
			}
			used := 0
			for _, g := range gangs[1:] {
				used += len(g.on)
			}
			w.Queues = append(w.Queues, schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": fmt.Sprint(used)}).Obj())
			got := runWith(t, w, strings.Replace(simpleTiers, "proportion", "capacity", 1))
			if len(got.evicted) != tt.want || !strings.HasSuffix(got.reasons["new"], tt.reason) {
				t.Errorf("evicted %d pods, want %d; reason %q, want one that ends in %q", len(got.evicted), tt.want, got.reasons["new"], tt.reason)
			}
			if tt.reason == "" && len(got.pipelined) != members {
				t.Errorf("%d members wait for the room, want %d", len(got.pipelined), members)
			}
		})
	}
}

// TestAQueueBeyondItsLimitIsNotMendedForOneGang checks a queue that uses more than it may, since its capability was lowered or
// other queues ask for more. No pods are evicted for a small gang to bring the queue back below its limit.
func TestAQueueBeyondItsLimitIsNotMendedForOneGang(t *testing.T) {
	for name, tt := range map[string]struct {
		capability string
		others     gang
	}{
		"by its capability": {capability: "8"},
		"by its share":      {others: gang{name: "others", queue: "r", min: 8, cpu: "1", pending: 8, pod: func(p *schedtest.PodBuilder) { p.NodeSelector("name", "nowhere") }}},
	} {
		t.Run(name, func(t *testing.T) {
			gangs := []gang{{name: "low", queue: "q", min: 0, priority: 1, cpu: "1", on: slices.Repeat([]string{"n0", "n1"}, 8)}, {name: "new", queue: "q", min: 1, priority: 9, cpu: "1", pending: 1}}
			queue, plugin := schedtest.MakeQueue().Name("q"), "proportion"
			if tt.capability != "" {
				queue, plugin = queue.Capability(schedtest.Resources{"cpu": tt.capability}), "capacity"
			} else {
				gangs = append(gangs, tt.others)
			}
			w := world(nodesOf(2, "8"), gangs...)
			w.Queues = append(w.Queues, queue.Obj(), schedtest.MakeQueue().Name("r").Obj())
			got := runWith(t, w, strings.Replace(simpleTiers, "proportion", plugin, 1))
			if want := "preemption cannot help: queue q has no room for the gang even without the pods that may be evicted"; len(got.evicted) > 0 || !strings.HasSuffix(got.reasons["new"], want) {
				t.Errorf("evicted %v; reason %q, want one that ends in %q", got.evicted, got.reasons["new"], want)
			}
		})
	}
}

// TestPodsThatFreeNothingTheQueueLacksStay checks a queue that is full in memory, and beyond its limit in cpu, which the gang does
// not request.
func TestPodsThatFreeNothingTheQueueLacksStay(t *testing.T) {
	w := world(nodesOf(2, "16"), gang{name: "new", queue: "q", min: 1, priority: 9})
	for i := range 16 {
		cpus := schedtest.MakePod().Name(fmt.Sprintf("cpus-%d", i)).Group("low").Priority(1).Req(schedtest.Resources{"cpu": "1"})
		both := schedtest.MakePod().Name(fmt.Sprintf("both-%d", i)).Group("more").Priority(2).Req(schedtest.Resources{"cpu": "500m", "memory": "1Gi"})
		w.Pods = append(w.Pods, cpus.Node(fmt.Sprintf("n%d", i%2)).Phase(v1.PodRunning).Obj(), both.Node(fmt.Sprintf("n%d", i%2)).Phase(v1.PodRunning).Obj())
	}
	w.Pods = append(w.Pods, schedtest.MakePod().Name("new-0").Group("new").Priority(9).Req(schedtest.Resources{"memory": "1Gi"}).Obj())
	w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p1", 1), schedtest.PriorityClass("p2", 2))
	for group, class := range map[string]string{"low": "p1", "more": "p2"} {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(group).Queue("q").MinMember(0).PriorityClass(class).Obj())
	}
	for _, node := range w.Nodes {
		node.Status.Allocatable["memory"], node.Status.Capacity["memory"] = resource.MustParse("64Gi"), resource.MustParse("64Gi")
		node.Status.Allocatable["pods"], node.Status.Capacity["pods"] = resource.MustParse("50"), resource.MustParse("50")
	}
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "12", "memory": "16Gi"}).Obj())
	got := runWith(t, w, strings.Replace(simpleTiers, "proportion", "capacity", 1))
	if len(got.evicted) != 1 || !strings.HasPrefix(got.evicted[0], "both-") {
		t.Errorf("evicted %v, want one pod that requests memory; reason %q", got.evicted, got.reasons["new"])
	}
}

// TestPodsAreEvictedForTheirPlaces checks nodes that take no more pods, although they have free resources.
func TestPodsAreEvictedForTheirPlaces(t *testing.T) {
	for _, cpu := range []string{"1", "0"} {
		w := world(nodesOf(1, "64"),
			gang{name: "low", min: 0, priority: 1, cpu: cpu, on: slices.Repeat([]string{"n0"}, 20)},
			gang{name: "new", min: 3, priority: 9, cpu: "1", pending: 3})
		got := runWith(t, w, simpleTiers)
		if len(got.evicted) != 3 || len(got.pipelined) != 3 {
			t.Errorf("pods that request cpu %s: evicted %v for %v, want three pods for three; reason %q", cpu, got.evicted, got.pipelined, got.reasons["new"])
		}
	}
}

// TestAGangMayMeetItsMinimumWithSmallPods checks a gang of which any two pods suffice. Its queue has room for the small ones.
func TestAGangMayMeetItsMinimumWithSmallPods(t *testing.T) {
	w := world(nodesOf(4, "8"),
		gang{name: "old", queue: "q", min: 0, priority: 1, cpu: "4", on: each(2)},
		gang{name: "new", queue: "q", min: 2, priority: 9})
	for i, cpu := range []string{"8", "8", "4", "4"} {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("new-%d", i)).Group("new").Priority(9).Req(schedtest.Resources{"cpu": cpu}).Obj())
	}
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "8"}).Obj())
	got := runWith(t, w, strings.Replace(simpleTiers, "proportion", "capacity", 1))
	if len(got.evicted) != 2 {
		t.Errorf("evicted %v, want both pods of old; reason %q", got.evicted, got.reasons["new"])
	}
}

// TestARefusalByTheQueueIsNotKept checks a gang whose queue deserves less in the first session than in the second, since
// another queue asks for less then. Nothing else changes.
func TestARefusalByTheQueueIsNotKept(t *testing.T) {
	w := world(nodesOf(2, "8"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(2)},
		gang{name: "new", min: 3, priority: 9, cpu: "4", pending: 3},
		gang{name: "others", queue: "other", min: 1, priority: 1, cpu: "8", pending: 1, pod: func(p *schedtest.PodBuilder) { p.NodeSelector("name", "nowhere") }})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("other").Obj())
	c := newCluster(w, simpleTiers)
	defer c.close()
	if got := c.session(); len(got.evicted) > 0 || !strings.Contains(got.reasons["new"], "queue default has no room") {
		t.Fatalf("evicted %v at first; reason %q", got.evicted, got.reasons["new"])
	}
	c.Cache().DeletePod(w.Pods[len(w.Pods)-1])
	if got := c.session(); len(got.evicted) != 1 {
		t.Errorf("evicted %v then, want one pod; reason %q", got.evicted, got.reasons["new"])
	}
}

// TestPodsThatAreBeingDeletedAreNoVictims checks a pod of low priority that its owner has deleted with a long grace period. In
// sessions, the job of framework.DeletedJob holds it, because it still counts against its queue. To evict it once more would
// free nothing.
func TestPodsThatAreBeingDeletedAreNoVictims(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: string(framework.DeletedJob("gone")), min: 0, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "low", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	if got := runWith(t, w, simpleTiers); !slices.Equal(got.evicted, []string{"low-0"}) {
		t.Errorf("evicted %v, want low-0; reason %q", got.evicted, got.reasons["new"])
	}
}
