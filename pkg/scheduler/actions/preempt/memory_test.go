// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func podGroupOf(w *sessiontest.ClusterSpec, name string) *v1beta1.PodGroup {
	return w.PodGroups[slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == name })]
}

func nodeOf(w *sessiontest.ClusterSpec, name string) *v1.Node {
	return w.Nodes[slices.IndexFunc(w.Nodes, func(node *v1.Node) bool { return node.Name == name })]
}

// changePods changes the pods with the name, or those of the gang if the name ends in a hyphen.
func changePods(w *sessiontest.ClusterSpec, name string, change func(*v1.Pod)) {
	for _, pod := range w.Pods {
		if pod.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(pod.Name, name) {
			change(pod)
		}
	}
}

// refusedWorld returns a cluster with gang new, for which arithmetic finds no room: it needs two nodes, and only the pod on n0
// may be evicted. Node n8 is idle and tainted.
func refusedWorld() sessiontest.ClusterSpec {
	never := func(p *schedtest.PodBuilder) { p.Annotation(v1beta1.PodPreemptable, "false") }
	w := world(nodesOf(9, "4"),
		gang{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "same", min: 1, priority: 9, cpu: "4", on: []string{"n1"}},
		gang{name: "never", min: 1, priority: 1, cpu: "4", on: []string{"n2"}, pod: never},
		gang{name: "partly", min: 2, priority: 1, cpu: "4", on: []string{"n3", "n4"}, pod: never},
		gang{name: "roles", min: 2, priority: 1, cpu: "4", on: []string{"n5", "n6"}, pod: func(p *schedtest.PodBuilder) { never(p.Role("worker")) }},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	w.Pods = append(w.Pods, schedtest.MakePod().Name("roles-2").Group("roles").Role("chief").Priority(1).Req(schedtest.Resources{"cpu": "4"}).Annotation(v1beta1.PodPreemptable, "false").Node("n7").Phase(v1.PodRunning).Obj())
	for _, name := range []string{"partly-0", "roles-0"} {
		changePods(&w, name, func(pod *v1.Pod) { delete(pod.Annotations, v1beta1.PodPreemptable) })
	}
	podGroupOf(&w, "roles").Spec.MinTaskMember = map[string]int32{"worker": 2}
	nodeOf(&w, "n8").Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
	for _, name := range []string{"new", "same"} {
		podGroupOf(&w, name).Spec.PriorityClassName = name
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(name, 9))
	}
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("other").Obj())
	return w
}

// changes are changes of refusedWorld after which gang new is looked at again.
var changes = map[string]struct {
	change  func(w *sessiontest.ClusterSpec)
	evicted []string
	// reason is a part of the reason why nothing is evicted.
	reason string
}{
	"none": {change: func(*sessiontest.ClusterSpec) {}, reason: "room for 1 of 2 members"},
	"a victim's gang gets a class of lower priority": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "same").Spec.PriorityClassName = "p1"
	}, evicted: []string{"old-0", "same-0"}},
	"the class of a victim's gang gets a lower priority": {change: func(w *sessiontest.ClusterSpec) {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("same", 8))
	}, evicted: []string{"old-0", "same-0"}},
	"the gang gets a class of higher priority": {change: func(w *sessiontest.ClusterSpec) {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p10", 10))
		podGroupOf(w, "new").Spec.PriorityClassName = "p10"
	}, evicted: []string{"old-0", "same-0"}},
	"the class of the gang gets a higher priority": {change: func(w *sessiontest.ClusterSpec) {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("new", 10))
	}, evicted: []string{"old-0", "same-0"}},
	"a pod becomes preemptable": {change: func(w *sessiontest.ClusterSpec) {
		changePods(w, "never-0", func(pod *v1.Pod) { delete(pod.Annotations, v1beta1.PodPreemptable) })
	}, evicted: []string{"never-0", "old-0"}},
	"a pod of the queue ends": {change: func(w *sessiontest.ClusterSpec) {
		changePods(w, "never-0", func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded })
	}, evicted: []string{"old-0"}},
	"the gang needs fewer members": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "new").Spec.MinMember = 1
	}, evicted: []string{"old-0"}},
	"the gang gets small pods": {change: func(w *sessiontest.ClusterSpec) {
		for _, name := range []string{"new-2", "new-3"} {
			w.Pods = append(w.Pods, schedtest.MakePod().Name(name).Group("new").Priority(9).Req(schedtest.Resources{"cpu": "1"}).Obj())
		}
	}, evicted: []string{"old-0"}},
	"the gang moves to another queue": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "new").Spec.Queue = "other"
	}, reason: "no pods may be evicted for the gang"},
	"the gang's pods must not preempt": {change: func(w *sessiontest.ClusterSpec) {
		never := v1.PreemptNever
		changePods(w, "new-", func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = &never })
	}, reason: "preemptionPolicy of its pods is Never"},
	"the gang waits longer": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "new").Annotations = map[string]string{DelayAnnotation: "1000000h"}
	}, reason: "because of a delay of 1000000h0m0s"},
	"a victim's gang needs fewer members": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "partly").Spec.MinMember = 1
	}, evicted: []string{"old-0", "partly-0"}},
	"a victim's role needs fewer members": {change: func(w *sessiontest.ClusterSpec) {
		podGroupOf(w, "roles").Spec.MinTaskMember = map[string]int32{"worker": 1}
	}, evicted: []string{"old-0", "roles-0"}},
	"a node is added": {change: func(w *sessiontest.ClusterSpec) {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name("n9").Capacity(schedtest.Resources{"cpu": "4", "pods": "20"}).Obj())
	}, evicted: []string{"old-0"}},
	"a node grows": {change: func(w *sessiontest.ClusterSpec) {
		nodeOf(w, "n2").Status = schedtest.MakeNode().Name("n2").Capacity(schedtest.Resources{"cpu": "8", "pods": "20"}).Obj().Status
	}, evicted: []string{"old-0"}},
	"a node loses its taint": {change: func(w *sessiontest.ClusterSpec) {
		nodeOf(w, "n8").Spec.Taints = nil
	}, evicted: []string{"old-0"}},
}

// TestAChangeThatHelpsIsSeen checks that a gang that got no room in one session is looked at again in the next one after a
// change in between. Without a change, the reason of the first session is used again. In a live cluster, sessions get the same
// JobInfos and NodeInfos, else new ones.
func TestAChangeThatHelpsIsSeen(t *testing.T) {
	for name, c := range changes {
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, live %t", name, live), func(t *testing.T) {
				before, after := refusedWorld(), refusedWorld()
				c.change(&after)
				cl := newCluster(before, simpleTiers)
				if live {
					cl = newLiveCluster(before, simpleTiers)
				}
				defer cl.close()
				first := cl.session()
				if known := len(cl.action.memory.excluded); len(first.evicted) > 0 || known != 1 {
					t.Fatalf("before the change, evicted %v and excluded %d gangs, want none and 1", first.evicted, known)
				}
				if live {
					cl.showChanges(before, after)
				} else {
					cl.Load(after)
				}
				second := cl.session()
				if !slices.Equal(second.evicted, c.evicted) || !strings.Contains(second.reasons["new"], c.reason) {
					t.Errorf("evicted %v after the change, want %v; reason: %s, want one with %q", second.evicted, c.evicted, second.reasons["new"], c.reason)
				}
			})
		}
	}
}

// TestTheReasonFollowsTheVictims checks a gang of which a pod may be evicted only as long as one that has succeeded counts
// towards its minimum.
func TestTheReasonFollowsTheVictims(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "partly", min: 2, priority: 1, cpu: "4", on: each(2)},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	w.Pods[1].Annotations[v1beta1.PodPreemptable] = "false"
	w.Pods = append(w.Pods, schedtest.MakePod().Name("ended").Group("partly").Node("n0").Phase(v1.PodSucceeded).Obj())
	cl := newCluster(w, simpleTiers)
	defer cl.close()
	for _, want := range []string{"the cluster has room for 1 of 2 members even without the pods that may be evicted", "no pods may be evicted for the gang"} {
		if got := cl.session().reasons["new"]; !strings.HasSuffix(got, want) {
			t.Errorf("reason %q, want one that ends in %q", got, want)
		}
		w.Pods = w.Pods[:4]
		cl.Load(w)
	}
}

// TestAHopelessGangIsNotPlannedAgain checks that an unchanged session uses the reason of the session before.
func TestAHopelessGangIsNotPlannedAgain(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "new", min: 2, priority: 9, cpu: "8", pending: 2})
	cl := newCluster(w, simpleTiers)
	defer cl.close()
	cl.session()
	memory := &cl.action.memory
	if len(memory.refused) != 1 {
		t.Fatalf("%d results are kept, want 1", len(memory.refused))
	}
	for fingerprint := range memory.refused {
		memory.refused[fingerprint] = "the reason of the last session"
	}
	for range 2 {
		if got, want := cl.session().reasons["new"], "the reason of the last session"; !strings.HasSuffix(got, want) {
			t.Errorf("reason %q, want one that ends in %q", got, want)
		}
	}
}

// TestSubGroupsThatEndAreSeen checks that a gang is tried again once the pods of another gang may go one by one, because it no longer has
// sub-groups.
func TestSubGroupsThatEndAreSeen(t *testing.T) {
	spec := func(sub bool) sessiontest.ClusterSpec {
		w := world(nodesOf(4, "4"),
			gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(4)},
			gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
		inSubGroups(&w, "old", 1)
		if !sub {
			podGroupOf(&w, "old").Spec.SubGroupPolicy = nil
		}
		changePods(&w, "old-0", func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.PodPreemptable, "false") })
		return w
	}
	before, after := spec(true), spec(false)
	c := newLiveCluster(before, simpleTiers)
	defer c.close()
	for range 2 {
		if got := c.session(); len(got.evicted) > 0 {
			t.Fatalf("evicted %v", got.evicted)
		}
	}
	c.showChanges(before, after)
	if got := c.session(); len(got.evicted) != 1 {
		t.Errorf("evicted %v; %v", got.evicted, got.reasons)
	}
}

// TestAnEvictionThatFailedIsSeen checks a session that evicts v for a, and then finds no room for b. The eviction fails, and w is being
// deleted instead. Then the nodes look as they did when b got no room, but v may go.
func TestAnEvictionThatFailedIsSeen(t *testing.T) {
	conf := strings.Replace(simpleTiers, "  - name: proportion\n", "", 1)
	w := world(map[string]string{"n0": "8"},
		gang{name: "v", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "w", queue: "other", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "a", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "b", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("other").Obj())
	for _, pod := range w.Pods {
		pod.UID = types.UID("uid-" + pod.Name)
	}
	c := newLiveCluster(w, conf)
	defer c.close()
	first := c.session()
	if !cmp.Equal(first.evicted, []string{"v-0"}) {
		t.Fatalf("evicted %v; %v", first.evicted, first.reasons)
	}
	for _, pod := range w.Pods {
		if pod.Name == "w-0" {
			pod = pod.DeepCopy()
			now := metav1.Now()
			pod.DeletionTimestamp = &now
			c.Show(pod)
		}
	}
	if got := c.session(); !cmp.Equal(got.evicted, []string{"v-0"}) || len(got.pipelined) != 2 {
		t.Errorf("evicted %v for %v; %v", got.evicted, got.pipelined, got.reasons)
	}
}
