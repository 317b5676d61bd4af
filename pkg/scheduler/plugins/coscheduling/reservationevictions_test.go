// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// evictingConf is a configuration with reservations, whose actions preempt and reclaim make room for whole gangs.
const evictingConf = `
actions: enqueue, allocate, preempt, reclaim
configurations:
- name: preempt
  arguments: {delay: 10m}
- name: reclaim
  arguments: {delay: 10m}
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
- plugins:
  - name: predicates
  - name: capacity
  - name: nodeorder
  - name: coscheduling
    arguments: {starvationAfter: 5m, reservedPercent: 50}
`

// lentNodes has four nodes that pods of the queue use, with a low priority on n0 and n1, and a higher one on n2 and n3. Queue
// own deserves two nodes and gets no more. The queues lent and other deserve one each.
func lentNodes(queue string) sessiontest.ClusterSpec {
	w := fourNodes()
	for name, cpu := range map[string]string{"own": "8", "lent": "4", "other": "4"} {
		queue := schedtest.MakeQueue().Name(name).Deserved(cores(cpu))
		if name == "own" {
			queue.Capability(cores(cpu))
		}
		w.Queues = append(w.Queues, queue.Obj())
	}
	for class, priority := range map[string]int32{"low": 1, "dear": 5, "high": 9, "higher": 10} {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(class, priority))
	}
	for class, nodes := range map[string][]string{"low": {"n0", "n1"}, "dear": {"n2", "n3"}} {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(class).Queue(queue).MinMember(0).PriorityClass(class).Obj())
		i := slices.IndexFunc(w.PriorityClasses, func(of *schedulingv1.PriorityClass) bool { return of.Name == class })
		for k, node := range nodes {
			pod := schedtest.MakePod().Name(class + "-" + string(rune('0'+k))).Group(class).Req(cores("4")).Priority(w.PriorityClasses[i].Value)
			w.Pods = append(w.Pods, pod.Node(node).Phase(v1.PodRunning).Obj())
		}
	}
	for i, node := range w.Nodes {
		if i < 2 {
			node.Labels["pool"] = "first"
		}
	}
	return w
}

// arrive creates a gang of pods of 4 CPUs now. change is called with each of its pods.
func (w *simulation) arrive(name, queue, class string, priority int32, n int, change func(*v1.Pod)) {
	group := schedtest.MakePodGroup().Name(name).Queue(queue).PriorityClass(class).MinMember(int32(n)).Obj()
	group.CreationTimestamp = metav1.Now()
	w.cluster.Cache().AddPodGroupV1beta1(group)
	pods := members(schedtest.MakePod().Req(cores("4")).Priority(priority), name, n)
	for _, pod := range pods {
		pod.CreationTimestamp = metav1.Now()
		change(pod)
	}
	w.add(pods...)
}

// starve creates gang big of queue own, which needs n0 and n1, and lets it wait until the nodes are reserved for it. policy says
// whether its pods may preempt.
func (w *simulation) starve(policy v1.PreemptionPolicy, reserves bool) {
	w.t.Helper()
	for _, action := range []*preempt.Action{preempt.New(nil), preempt.NewReclaim(nil)} {
		w.registry.RegisterAction(action)
		evicts, _ := vcframework.GetAction(action.Name())
		w.actions = append(w.actions, evicts)
	}
	w.arrive("big", "own", "high", 9, 2, func(pod *v1.Pod) {
		pod.Spec.NodeSelector, pod.Spec.PreemptionPolicy = map[string]string{"pool": "first"}, &policy
	})
	w.pass(6*time.Minute, tick)
	want := []string{}
	if reserves {
		want = []string{"n0", "n1"}
	}
	if got := w.reserved(); !slices.Equal(got, want) || len(w.evicted) > 0 {
		w.t.Fatalf("nodes %v are reserved and %v evicted, want %v and none; %v", got, w.evicted, want, w.condition("big", Reserved))
	}
}

// TestNoPodIsEvictedOnReservedNodesForOthers checks gangs that could get room most cheaply on nodes that are reserved for another
// gang, which waits for evictions itself. A pod of a higher priority may take these nodes.
func TestNoPodIsEvictedOnReservedNodesForOthers(t *testing.T) {
	immediate := strings.ReplaceAll(evictingConf, "delay: 10m", "")
	for name, c := range map[string]struct {
		conf     string
		victims  string // the queue whose pods run
		queue    string
		class    string
		priority int32
		evicted  []string
	}{
		"a reclaimer":                      {conf: immediate, victims: "lent", queue: "other", class: "high", priority: 9, evicted: []string{"dear-0"}},
		"a reclaimer without reservations": {conf: strings.Replace(immediate, "starvationAfter: 5m, ", "", 1), victims: "lent", queue: "other", class: "high", priority: 9, evicted: []string{"low-0"}},
		"a reclaimer of higher priority":   {conf: immediate, victims: "lent", queue: "other", class: "higher", priority: 10, evicted: []string{"low-0"}},
		"a preemptor":                      {conf: immediate, victims: "lent", queue: "lent", class: "high", priority: 9, evicted: []string{"dear-0"}},
		// The resources of the queue are kept for the gang with the reservation.
		"a gang of the same queue": {conf: immediate, victims: "lent", queue: "own", class: "high", priority: 9},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, lentNodes(c.victims), c.conf, func(t *testing.T, w *simulation) {
				w.starve(v1.PreemptNever, strings.Contains(c.conf, "starvationAfter"))
				w.arrive("new", c.queue, c.class, c.priority, 1, func(*v1.Pod) {})
				w.pass(2*time.Minute, tick)
				if got := slices.Sorted(maps.Keys(w.evicted)); !slices.Equal(got, c.evicted) {
					t.Errorf("evicted %v, want %v; %s", got, c.evicted, w.condition("new", "Unschedulable").Message)
				}
				if w.runs("big") || w.runs("new") != (c.evicted != nil) {
					t.Errorf("gang big runs: %t, gang new runs: %t", w.runs("big"), w.runs("new"))
				}
			})
		})
	}
}

// TestAGangEvictsPodsOnNodesReservedForIt checks a gang for which nodes are reserved before it may evict pods: of its own queue, and
// of another queue.
func TestAGangEvictsPodsOnNodesReservedForIt(t *testing.T) {
	for action, victims := range map[string]string{"preempt": "own", "reclaim": "lent"} {
		t.Run(action, func(t *testing.T) {
			w := lentNodes(victims)
			for _, pg := range w.PodGroups { // the share of queue own must suffice for its reservation
				if pg.Name == "dear" {
					pg.Spec.Queue = "lent"
				}
			}
			in(t, w, evictingConf, func(t *testing.T, w *simulation) {
				w.starve(v1.PreemptLowerPriority, true)
				w.pass(5*time.Minute, tick)
				if got, want := slices.Sorted(maps.Keys(w.evicted)), []string{"low-0", "low-1"}; !slices.Equal(got, want) || !w.runs("big") {
					t.Errorf("evicted %v, want %v; gang big runs: %t; %s", got, want, w.runs("big"), w.condition("big", "Unschedulable").Message)
				}
				if got := w.condition("big", Reserved); got.Type != "" || len(w.plugin.reservations.active) > 0 {
					t.Errorf("the gang runs, but has the condition %s", got.Message)
				}
			})
		})
	}
}
