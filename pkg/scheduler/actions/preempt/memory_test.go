// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAChangeThatHelpsIsSeen checks that a gang that got no room in one session is tried again in the next one if a change
// in between allows to evict pods for it. Without a change, the reason of the first session is used again.
func TestAChangeThatHelpsIsSeen(t *testing.T) {
	podGroup := func(w *sessiontest.ClusterSpec, name string) *v1beta1.PodGroup {
		return w.PodGroups[slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == name })]
	}
	pods := func(w *sessiontest.ClusterSpec, name string, change func(*v1.Pod)) {
		for i, pod := range w.Pods {
			if pod.Name == name {
				w.Pods[i] = pod.DeepCopy()
				change(w.Pods[i])
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(w *sessiontest.ClusterSpec)
		evicted []string
	}{
		"none": {func(*sessiontest.ClusterSpec) {}, nil},
		"a victim's gang gets a lower priority": {func(w *sessiontest.ClusterSpec) {
			podGroup(w, "same").Spec.PriorityClassName = "p1"
		}, []string{"old-0", "same-0"}},
		"the gang gets a higher priority": {func(w *sessiontest.ClusterSpec) {
			w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p10", 10))
			podGroup(w, "new").Spec.PriorityClassName = "p10"
		}, []string{"old-0", "same-0"}},
		"a pod becomes preemptable": {func(w *sessiontest.ClusterSpec) {
			pods(w, "never-0", func(pod *v1.Pod) { delete(pod.Annotations, v1beta1.PodPreemptable) })
		}, []string{"never-0", "old-0"}},
		"the gang needs fewer members": {func(w *sessiontest.ClusterSpec) {
			podGroup(w, "new").Spec.MinMember = 1
		}, []string{"old-0"}},
		"a victim's gang needs fewer members": {func(w *sessiontest.ClusterSpec) {
			podGroup(w, "partly").Spec.MinMember = 1
		}, []string{"old-0", "partly-0"}},
		"a victim's role needs fewer members": {func(w *sessiontest.ClusterSpec) {
			podGroup(w, "roles").Spec.MinTaskMember = map[string]int32{"worker": 1}
		}, []string{"old-0", "roles-0"}},
		"a node is added": {func(w *sessiontest.ClusterSpec) {
			w.Nodes = append(w.Nodes, schedtest.MakeNode().Name("n9").Capacity(schedtest.Resources{"cpu": "4", "pods": "20"}).Obj())
		}, []string{"old-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			never := func(p *schedtest.PodBuilder) { p.Annotation(v1beta1.PodPreemptable, "false") }
			w := world(nodesOf(8, "4"),
				gang{name: "old", min: 1, priority: 1, cpu: "4", on: []string{"n0"}},
				gang{name: "same", min: 1, priority: 9, cpu: "4", on: []string{"n1"}},
				gang{name: "never", min: 1, priority: 1, cpu: "4", on: []string{"n2"}, pod: never},
				gang{name: "partly", min: 2, priority: 1, cpu: "4", on: []string{"n3", "n4"}, pod: never},
				gang{name: "roles", min: 2, priority: 1, cpu: "4", on: []string{"n5", "n6"}, pod: func(p *schedtest.PodBuilder) { never(p.Role("worker")) }},
				gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
			w.Pods = append(w.Pods, schedtest.MakePod().Name("roles-2").Group("roles").Role("chief").Priority(1).Req(schedtest.Resources{"cpu": "4"}).Annotation(v1beta1.PodPreemptable, "false").Node("n7").Phase(v1.PodRunning).Obj())
			for _, name := range []string{"partly-0", "roles-0"} {
				pods(&w, name, func(pod *v1.Pod) { delete(pod.Annotations, v1beta1.PodPreemptable) })
			}
			podGroup(&w, "roles").Spec.MinTaskMember = map[string]int32{"worker": 2}
			cl := newCluster(w, simpleTiers)
			defer cl.close()
			first := cl.session()
			if len(first.evicted) > 0 {
				t.Fatalf("evicted %v before the change, want none", first.evicted)
			}
			c.change(&w)
			cl.Load(w)
			second := cl.session()
			if !slices.Equal(second.evicted, c.evicted) {
				t.Errorf("evicted %v after the change, want %v; reason: %s", second.evicted, c.evicted, second.reasons["new"])
			}
			if c.evicted == nil && second.reasons["new"] != first.reasons["new"] {
				t.Errorf("without a change, the reason %q became %q", first.reasons["new"], second.reasons["new"])
			}
		})
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
