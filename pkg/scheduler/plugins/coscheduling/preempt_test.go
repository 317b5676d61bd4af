// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const preemptConf = `
actions: enqueue, allocate, preempt
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: coscheduling
`

// groupThatEvicts has three nodes of 4 cpus. Gangs x and y are a group of two members each: x needs node n1, which is
// full of low-priority pods, and y needs n2, where pods of the gangs' own priority leave this number of free cpus. Gang
// z is not in a group and needs n3, which is full of low-priority pods.
func groupThatEvicts(free int) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{PriorityClasses: []*schedulingv1.PriorityClass{schedtest.PriorityClass("low", 1), schedtest.PriorityClass("high", 100)}}
	running := func(group, class, node string, priority int32, n int) {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(group).MinMember(0).PriorityClass(class).Obj())
		w.Pods = append(w.Pods, members(schedtest.MakePod().Req(cores("1")).Node(node).Phase(v1.PodRunning).Priority(priority), group, n)...)
	}
	waiting := func(gang, cpu, node string, group ...string) {
		pg := schedtest.MakePodGroup().Name(gang).MinMember(2).PriorityClass("high")
		if len(group) > 0 {
			pg.Annotation(gangs.GroupsAnnotation, groupOf(group...))
		}
		w.PodGroups = append(w.PodGroups, pg.Obj())
		w.Pods = append(w.Pods, members(schedtest.MakePod().Req(cores(cpu)).Priority(100).NodeSelector("name", node), gang, 2)...)
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		w.Nodes = append(w.Nodes, holds("4").Name(node).Label("name", node).Obj())
	}
	running("low-1", "low", "n1", 1, 4)
	running("high-2", "high", "n2", 100, 4-free)
	running("low-3", "low", "n3", 1, 4)
	waiting("x", "1", "n1", "x", "y")
	waiting("y", "1", "n2", "x", "y")
	waiting("z", "1", "n3")
	return w
}

func TestNoPodIsEvictedForAPartOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		free    int
		evicted []string
	}{
		"y has no room":           {0, []string{"low-3", "low-3"}},
		"y has too little room":   {1, []string{"low-3", "low-3"}},
		"y has room, and x makes": {2, []string{"low-1", "low-1", "low-3", "low-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, groupThatEvicts(c.free), preemptConf, func(t *testing.T, w *simulation) {
				w.preempts()
				w.pass(10*time.Second, time.Second)
				var evicted []string
				for pod := range w.evicted {
					evicted = append(evicted, pod[:len(pod)-2])
				}
				slices.Sort(evicted)
				if diff := cmp.Diff(c.evicted, evicted); diff != "" {
					t.Errorf("gangs of the evicted pods (-want +got):\n%s", diff)
				}
				if room := c.free == 2; w.runs("x") != room || w.runs("y") != room {
					t.Errorf("x runs: %t, y runs: %t, want %t", w.runs("x"), w.runs("y"), room)
				}
				if !w.runs("z") {
					t.Error("gang z, which is not in a group, does not run")
				}
			})
		})
	}
}

// TestAGroupEvictsOnceItCan checks that a group evicts no pods until the evictions are enough for the whole group.
func TestAGroupEvictsOnceItCan(t *testing.T) {
	in(t, groupThatEvicts(0), preemptConf, func(t *testing.T, w *simulation) {
		w.preempts()
		w.pass(5*time.Minute, time.Second)
		if n := len(w.evicted); n != 2 {
			t.Fatalf("%d pods are evicted, want the two for z", n)
		}
		w.remove("high-2-0")
		w.remove("high-2-1")
		w.pass(2*time.Minute, time.Second)
		if !w.runs("x") || !w.runs("y") || len(w.evicted) != 4 {
			t.Errorf("x runs: %t, y runs: %t, evicted: %v", w.runs("x"), w.runs("y"), w.evicted)
		}
	})
}

// TestBothGangsOfAGroupEvict: neither gang of a group has room without evictions. Both gangs evict pods, and then run.
func TestBothGangsOfAGroupEvict(t *testing.T) {
	given := groupThatEvicts(0)
	for _, pg := range given.PodGroups {
		if pg.Name == "high-2" {
			pg.Spec.PriorityClassName = "low"
		}
	}
	for _, pod := range given.Pods {
		if pod.Annotations["scheduling.k8s.io/group-name"] == "high-2" {
			low := int32(1)
			pod.Spec.Priority = &low
		}
	}
	in(t, given, preemptConf, func(t *testing.T, w *simulation) {
		w.preempts()
		w.pass(10*time.Second, time.Second)
		if !w.runs("x") || !w.runs("y") || len(w.evicted) != 6 {
			t.Errorf("x runs: %t, y runs: %t, evicted: %v", w.runs("x"), w.runs("y"), w.evicted)
		}
	})
}

// TestVictimsOfAGroupWithoutRoomAreSpared: on a node where a group's evictions are useless, only the victims that another
// gang needs are evicted, the lowest priority first.
func TestVictimsOfAGroupWithoutRoomAreSpared(t *testing.T) {
	given := groupThatEvicts(0)
	for _, pod := range given.Pods {
		switch {
		case pod.Annotations["scheduling.k8s.io/group-name"] == "z":
			pod.Spec.NodeSelector["name"] = "n1"
		case pod.Name == "low-1-3" || pod.Name == "low-1-1":
			pod.Annotations["scheduling.k8s.io/group-name"] = "lower"
		}
	}
	given.PodGroups = append(given.PodGroups, schedtest.MakePodGroup().Name("lower").MinMember(0).Obj())
	in(t, given, preemptConf, func(t *testing.T, w *simulation) {
		w.preempts()
		w.session()
		if diff := cmp.Diff([]string{"low-1-1", "low-1-3"}, slices.Sorted(maps.Keys(w.evicted))); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
		w.pass(10*time.Second, time.Second)
		if len(w.evicted) != 2 {
			t.Errorf("evicted %v, want no further pods", w.evicted)
		}
		if w.runs("x") || w.runs("y") || !w.runs("z") {
			t.Errorf("x runs: %t, y runs: %t, z runs: %t, want only z", w.runs("x"), w.runs("y"), w.runs("z"))
		}
	})
}
