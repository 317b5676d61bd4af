// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// quiet is the number of sessions without a change after which a cluster is at rest, and mostSessions how many sessions it may
// take to come to rest.
const (
	quiet        = 4
	mostSessions = 40
)

// toRest runs sessions on the cluster until nothing changes. After each session, evicted pods are gone and created again, and
// bound pods run. It returns the evicted pods of all sessions, by their gangs, and the running pods in the end.
func toRest(t *testing.T, w sessiontest.ClusterSpec, conf string, actions ...*Action) (evicted, running map[string]int) {
	t.Helper()
	cl := newClusterOf(w, conf, actions...)
	defer cl.close()
	evicted, running = map[string]int{}, map[string]int{}
	last := 0
	for session := 1; session <= last+quiet; session++ {
		if session > mostSessions {
			t.Fatalf("no rest after %d sessions, with evictions %v", mostSessions, evicted)
		}
		got := cl.session()
		if len(got.evicted)+len(got.bound) > 0 {
			last = session
		}
		for i, pod := range w.Pods {
			if got.gone(pod) {
				evicted[gangOf(pod)]++
			}
			w.Pods[i] = after(pod, got.gone(pod), got.nodes[pod.Name])
		}
		w.Objects = nil
		cl.Load(w)
	}
	for _, pod := range w.Pods {
		if pod.Spec.NodeName != "" {
			running[gangOf(pod)]++
		}
	}
	return evicted, running
}

func gangOf(pod *v1.Pod) string { return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] }

// after returns the pod after a session: created again if it was evicted, running if it was bound to a node.
func after(pod *v1.Pod, evicted bool, node string) *v1.Pod {
	pod = pod.DeepCopy()
	switch {
	case evicted:
		pod.Name += "x"
		pod.UID = types.UID(pod.Name)
		pod.Spec.NodeName, pod.Status = "", v1.PodStatus{Phase: v1.PodPending}
	case node != "":
		pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
	}
	return pod
}

func sum(counts map[string]int) int { return sumOf(counts, "") }

// sumOf returns the sum of the counts of gangs whose names begin with the prefix.
func sumOf(counts map[string]int, prefix string) (all int) {
	for name, n := range counts {
		if strings.HasPrefix(name, prefix) {
			all += n
		}
	}
	return all
}

// withoutPauses are reclaimTiers without the plugin that pauses evictions, with which repeated evictions would go unnoticed.
var withoutPauses = strings.Replace(reclaimTiers, "- plugins:\n  - name: evictionbackoff\n", "", 1)

// sharesOf are reclaimTiers with each of the plugins that know the shares of queues.
var sharesOf = map[string]string{"capacity": withoutPauses, "proportion": strings.Replace(withoutPauses, "name: capacity", "name: proportion", 1)}

// TestReclaimComesToRest checks queues that may take resources from each other: two gangs of queue b reclaim what b deserves
// from queue a, whose victims then wait. Nothing is evicted after that, although no plugin pauses evictions.
func TestReclaimComesToRest(t *testing.T) {
	for name, conf := range sharesOf {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(8, "4"),
				gang{name: "a1", queue: "a", min: 2, cpu: "4", on: []string{"n0", "n1"}},
				gang{name: "a2", queue: "a", min: 2, cpu: "4", on: []string{"n2", "n3"}},
				gang{name: "a3", queue: "a", min: 2, cpu: "4", on: []string{"n4", "n5"}},
				gang{name: "a4", queue: "a", min: 2, cpu: "4", on: []string{"n6", "n7"}},
				gang{name: "b1", queue: "b", min: 2, cpu: "4", pending: 2},
				gang{name: "b2", queue: "b", min: 2, cpu: "4", pending: 2},
				gang{name: "b3", queue: "b", min: 2, cpu: "4", pending: 2})
			w.Queues = []*v1beta1.Queue{deserving("a", "16"), deserving("b", "16")}
			if evicted, _ := toRest(t, w, conf, NewReclaim(nil)); sum(evicted) != 4 {
				t.Errorf("%v pods were evicted until rest, want 4", evicted)
			}
		})
	}
}

// TestLendersGiveBackOnce is like upstream's end-to-end test "Capacity Reclaim Case 11": queues q1 and q2 use all 8 CPUs, of which
// they deserve one each, when gangs of q3 and q4 arrive, of which two need a whole node. With plugin proportion, each queue
// deserves 2 CPUs, so that q4 gets no more than these. No pod is evicted without need, and none twice. That holds for lenders of
// elastic gangs, as in upstream's test, and for lenders of single pods, which may reclaim once they wait again.
func TestLendersGiveBackOnce(t *testing.T) {
	for name, c := range map[string]struct{ evicted, lent, q3, q4 int }{
		"capacity":   {evicted: 6, lent: 2, q3: 2, q4: 4},
		"proportion": {evicted: 4, lent: 4, q3: 2, q4: 2},
	} {
		for _, size := range []int{4, 1} {
			t.Run(fmt.Sprintf("%s, gangs of %d", name, size), func(t *testing.T) {
				var gangs []gang
				for i := 0; i < 4; i += size {
					nodes := each(4)[i : i+size]
					gangs = append(gangs, gang{name: fmt.Sprintf("j1.%d", i), queue: "q1", min: 1, priority: 1, cpu: "1", on: nodes}, gang{name: fmt.Sprintf("j2.%d", i), queue: "q2", min: 1, priority: 1, cpu: "1", on: nodes})
				}
				w := world(nodesOf(4, "2"), append(gangs,
					gang{name: "j3", queue: "q3", min: 1, priority: 9, cpu: "2", pending: 1},
					gang{name: "j4", queue: "q4", min: 1, priority: 9, cpu: "2", pending: 1},
					gang{name: "j5", queue: "q4", min: 1, priority: 9, cpu: "1", pending: 1},
					gang{name: "j6", queue: "q4", min: 1, priority: 9, cpu: "1", pending: 1})...)
				for queue, cpu := range map[string]string{"q1": "1", "q2": "1", "q3": "2", "q4": "4"} {
					w.Queues = append(w.Queues, deserving(queue, cpu))
				}
				evicted, running := toRest(t, w, sharesOf[name], NewReclaim(nil))
				lost1, lost2 := sumOf(evicted, "j1."), sumOf(evicted, "j2.")
				if sum(evicted) != c.evicted || lost1 != c.evicted/2 || lost2 != c.evicted/2 {
					t.Errorf("evicted %v until rest, want %d pods of j1 and of j2 each", evicted, c.evicted/2)
				}
				if sumOf(running, "j1.")+sumOf(running, "j2.") != c.lent || 2*running["j3"] != c.q3 || 2*running["j4"]+running["j5"]+running["j6"] != c.q4 {
					t.Errorf("pods %v run, want %d CPUs for j1 and j2, %d for q3 and %d for q4", running, c.lent, c.q3, c.q4)
				}
			})
		}
	}
}

// TestPrioritiesComeToRest checks gangs of three priorities that arrive one after the other in a cluster with room for one gang.
// Each evicts the one before. The evicted gangs wait and evict nothing.
func TestPrioritiesComeToRest(t *testing.T) {
	conf := strings.Replace(simpleTiers, "- plugins:\n  - name: evictionbackoff\n", "", 1)
	gangs := []gang{{name: "low", min: 2, priority: 1, cpu: "4", on: each(2)}}
	w := world(nodesOf(2, "4"), gangs...)
	all := map[string]int{}
	for i, name := range []string{"middle", "high"} {
		arrives := world(nil, gang{name: name, min: 2, priority: int32(5 * (i + 1)), cpu: "4", pending: 2})
		w.Pods, w.PodGroups, w.PriorityClasses = append(w.Pods, arrives.Pods...), append(w.PodGroups, arrives.PodGroups...), append(w.PriorityClasses, arrives.PriorityClasses...)
		evicted, running := toRest(t, w, conf, New(nil))
		for gang, n := range evicted {
			all[gang] += n
		}
		if want := map[string]int{name: 2}; !maps.Equal(running, want) {
			t.Errorf("after gang %s came, pods %v run, want %v", name, running, want)
		}
	}
	if want := map[string]int{"low": 2, "middle": 2}; !maps.Equal(all, want) {
		t.Errorf("evicted %v, want %v", all, want)
	}
}

// TestThreePrioritiesAtOnce checks a cluster of two nodes in which gangs of three priorities compete for the room of the lowest. The
// highest gets it at once, and only once.
func TestThreePrioritiesAtOnce(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "low", min: 2, priority: 1, cpu: "4", on: each(2)},
		gang{name: "middle", min: 2, priority: 5, cpu: "4", pending: 2},
		gang{name: "high", min: 2, priority: 9, cpu: "4", pending: 2})
	for _, conf := range []string{simpleTiers, strings.Replace(simpleTiers, "- plugins:\n  - name: evictionbackoff\n", "", 1)} {
		copied := w
		copied.Pods = slices.Clone(w.Pods)
		evicted, running := toRest(t, copied, conf, New(nil))
		if diff := cmp.Diff(fmt.Sprint(map[string]int{"low": 2}, map[string]int{"high": 2}), fmt.Sprint(evicted, running)); diff != "" {
			t.Errorf("evicted and running pods by gang (-want +got):\n%s", diff)
		}
	}
}
