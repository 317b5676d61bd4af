// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"maps"
	"math/rand/v2"

	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const victimTiers = `
actions: preempt
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
`

// runs is a running pod: its node, its job, the priority of both, and its cpu.
type runs struct {
	node, job string
	priority  int32
	cpu       string
}

// wants is a pending member of the gang: the node that it needs, or "" for any node, and its cpu.
type wants struct{ node, cpu string }

// evicting returns a cluster with the running pods and a gang of the pending members. Each job's pods may be evicted
// one by one.
func evicting(cpu map[string]string, running []runs, priority int32, waiting []wants) sessiontest.ClusterSpec {
	var w sessiontest.ClusterSpec
	for _, name := range slices.Sorted(maps.Keys(cpu)) {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Label("name", name).Capacity(schedtest.Resources{"cpu": cpu[name], "pods": "20"}).Obj())
	}
	priorities := map[int32]bool{priority: true}
	jobs := map[string]int32{}
	for i, r := range running {
		priorities[r.priority], jobs[r.job] = true, r.priority
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", r.job, i)).Group(r.job).Priority(r.priority).Req(schedtest.Resources{"cpu": r.cpu})
		w.Pods = append(w.Pods, pod.Node(r.node).Phase(v1.PodRunning).Obj())
	}
	for name, of := range jobs {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(name).MinMember(0).PriorityClass(fmt.Sprintf("p%d", of)).Obj())
	}
	for i, m := range waiting {
		pod := schedtest.MakePod().Name(fmt.Sprintf("gang-%d", i)).Group("gang").Priority(priority).Req(schedtest.Resources{"cpu": m.cpu})
		if m.node != "" {
			pod.NodeSelector("name", m.node)
		}
		w.Pods = append(w.Pods, pod.Obj())
	}
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("gang").MinMember(int32(len(waiting))).PriorityClass(fmt.Sprintf("p%d", priority)).Obj())
	for p := range priorities {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(fmt.Sprintf("p%d", p), p))
	}
	return w
}

// evicted runs preempt on the cluster. It returns the priorities of the evicted pods by node, and the nodes to which
// the gang's members are nominated.
func evicted(t *testing.T, w sessiontest.ClusterSpec, conf string) (gone map[string][]int32, on map[string]string) {
	t.Helper()
	names, on := evictedPods(t, w, conf)
	gone = map[string][]int32{}
	for _, pod := range w.Pods {
		if slices.Contains(names, pod.Namespace+"/"+pod.Name) {
			gone[pod.Spec.NodeName] = append(gone[pod.Spec.NodeName], *pod.Spec.Priority)
		}
	}
	for _, priorities := range gone {
		slices.Sort(priorities)
	}
	return gone, on
}

// evictedPods runs preempt on the cluster. It returns the evicted pods, and the nodes of the pods that take their
// place.
func evictedPods(t *testing.T, w sessiontest.ClusterSpec, conf string) (gone []string, on map[string]string) {
	t.Helper()
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	ssn := cluster.Open(registry, conf)
	defer ssn.Close()
	ssn.Run(vcpreempt.New())
	return ssn.Evicts(), ssn.Pipelined()
}

// TestChoiceOfVictims has the names of Koordinator's cases. The expected results are ours.
func TestChoiceOfVictims(t *testing.T) {
	for _, c := range []struct {
		name    string
		nodes   map[string]string
		running []runs
		waiting []wants
		want    map[string][]int32
		on      map[string]string
	}{
		{"G49: fewest victims, whatever their priorities and gangs", map[string]string{"n1": "3", "n2": "3", "n3": "3"},
			[]runs{{"n1", "a", 10, "1"}, {"n1", "a", 10, "1"}, {"n1", "b", 20, "1"}, {"n2", "c", 20, "3"}, {"n3", "d", 10, "1"}, {"n3", "e", 10, "1"}, {"n3", "f", 10, "1"}},
			[]wants{{"", "3"}}, map[string][]int32{"n2": {20}}, map[string]string{"gang-0": "n2"}},
		{"of as many victims the lowest", map[string]string{"n1": "2", "n2": "2", "n3": "2"},
			[]runs{{"n1", "a", 20, "2"}, {"n2", "b", 10, "2"}, {"n3", "c", 30, "2"}},
			[]wants{{"", "2"}}, map[string][]int32{"n2": {10}}, map[string]string{"gang-0": "n2"}},
		{"of as many victims the lowest, whatever the priority of pods that stay", map[string]string{"n1": "4", "n2": "2"},
			[]runs{{"n1", "a", 30, "2"}, {"n1", "b", 10, "2"}, {"n2", "c", 20, "2"}},
			[]wants{{"", "2"}}, map[string][]int32{"n1": {10}}, map[string]string{"gang-0": "n1"}},
		{"a node with room is better than any with victims", map[string]string{"n1": "2", "n2": "2"},
			[]runs{{"n1", "a", 10, "2"}},
			[]wants{{"", "2"}}, map[string][]int32{}, map[string]string{"gang-0": "n2"}},
		{"G50: members for whom only different nodes will do", map[string]string{"n1": "2", "n2": "2"},
			[]runs{{"n1", "a", 10, "2"}, {"n2", "b", 10, "2"}},
			[]wants{{"n1", "2"}, {"n2", "2"}}, map[string][]int32{"n1": {10}, "n2": {10}}, map[string]string{"gang-0": "n1", "gang-1": "n2"}},
		{"G50: no part of the gang's victims where it does not fit whole", map[string]string{"n1": "2", "n2": "2"},
			[]runs{{"n1", "a", 10, "2"}, {"n2", "b", 200, "2"}},
			[]wants{{"n1", "2"}, {"n2", "2"}}, map[string][]int32{}, map[string]string{}},
		{"G52: the highest is put back", map[string]string{"n1": "6"},
			[]runs{{"n1", "a", 30, "2"}, {"n1", "b", 20, "2"}, {"n1", "c", 10, "2"}},
			[]wants{{"", "2"}}, map[string][]int32{"n1": {10}}, map[string]string{"gang-0": "n1"}},
		{"G52: what 20 or 30 leaves is enough, and what 10 leaves is not: 20 goes, and 10 need not", map[string]string{"n1": "9"},
			[]runs{{"n1", "a", 30, "4"}, {"n1", "b", 20, "4"}, {"n1", "c", 10, "1"}},
			[]wants{{"", "4"}}, map[string][]int32{"n1": {20}}, map[string]string{"gang-0": "n1"}},
		{"G52: two must go: the two lowest", map[string]string{"n1": "6"},
			[]runs{{"n1", "a", 30, "2"}, {"n1", "b", 20, "2"}, {"n1", "c", 10, "2"}},
			[]wants{{"", "4"}}, map[string][]int32{"n1": {10, 20}}, map[string]string{"gang-0": "n1"}},
		{"the same priority is not taken from", map[string]string{"n1": "2"},
			[]runs{{"n1", "a", 100, "2"}},
			[]wants{{"", "2"}}, map[string][]int32{}, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone, on := evicted(t, evicting(c.nodes, c.running, 100, c.waiting), victimTiers)
			if diff := cmp.Diff(c.want, gone); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
			got := map[string]string{}
			for name, node := range on {
				got[strings.TrimPrefix(name, schedtest.Namespace+"/")] = node
			}
			if diff := cmp.Diff(c.on, got); diff != "" {
				t.Errorf("nominated (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFullQueueTakesMoreThanTheNodeNeeds: one eviction makes enough room on the node, but the queue needs two.
func TestAFullQueueTakesMoreThanTheNodeNeeds(t *testing.T) {
	w := evicting(map[string]string{"n1": "4"}, []runs{{"n1", "a", 10, "1"}, {"n1", "b", 20, "1"}, {"n1", "c", 30, "1"}}, 100, []wants{{"", "2"}})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"cpu": "3"}).Obj())
	gone, on := evicted(t, w, strings.Replace(victimTiers, "- name: nodeorder", "- name: nodeorder\n  - name: proportion", 1))
	if diff := cmp.Diff(map[string][]int32{"n1": {10, 20}}, gone); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	if on[schedtest.Namespace+"/gang-0"] != "n1" {
		t.Errorf("nominated: %v, want the gang's pod to n1", on)
	}
}

// TestVictimsOfSeveralNodesAreAllTaken: victims are chosen for each node separately, so the room on one node spares no
// victims on another.
func TestVictimsOfSeveralNodesAreAllTaken(t *testing.T) {
	w := evicting(map[string]string{"n1": "2", "n2": "2"}, []runs{{"n1", "a", 10, "2"}, {"n2", "b", 20, "2"}}, 100, []wants{{"", "2"}})
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	ssn := cluster.Open(registry, victimTiers)
	defer ssn.Close()
	ssn.Action = preempt
	for nodes, want := range map[string]int{"n1": 1, "n1 n2": 2} {
		var candidates []*api.TaskInfo
		for node := range strings.FieldsSeq(nodes) {
			candidates = slices.AppendSeq(candidates, maps.Values(ssn.Nodes[node].Tasks))
		}
		for _, preemptor := range ssn.Jobs[schedtest.Namespace+"/gang"].Tasks {
			if got := ssn.Preemptable(preemptor, candidates); len(got) != want {
				t.Errorf("the number of victims on %s is %d, want %d", nodes, len(got), want)
			}
		}
	}
}

// TestOnlyPreemptOrdersNodesByVictims checks that the plugin scores nodes by their victims only in preempt: reclaim
// evicts other victims, and the other actions evict none.
func TestOnlyPreemptOrdersNodesByVictims(t *testing.T) {
	cluster := sessiontest.New(evicting(map[string]string{"n1": "2"}, []runs{{"n1", "a", 10, "2"}}, 100, []wants{{"", "2"}}))
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	ssn := cluster.Open(registry, victimTiers)
	defer ssn.Close()
	for action, want := range map[string]int{preempt: 1, reclaim: 0, "backfill": 0} {
		ssn.Action = action
		for _, task := range ssn.Jobs[schedtest.Namespace+"/gang"].Tasks {
			if scores, err := (&victims{ssn: ssn.Session}).order(task, ssn.NodeList); err != nil || len(scores) != want {
				t.Errorf("%s scores %d nodes (%v), want %d", action, len(scores), err, want)
			}
		}
	}
}

// TestNoVictimIsNeedless checks on random nodes that a member fits after the evictions, and that it would not fit
// without any one of them.
func TestNoVictimIsNeedless(t *testing.T) {
	evictions := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, running, left := map[string]string{}, []runs{}, map[string]int{}
		for n := range 1 + r.IntN(3) {
			name := fmt.Sprintf("n%d", n)
			cpu := 0
			for i := range 1 + r.IntN(5) {
				size := 1 + r.IntN(4)
				cpu += size
				running = append(running, runs{name, fmt.Sprintf("job-%d-%d", n, i), int32(10 * r.IntN(12)), fmt.Sprint(size)})
			}
			left[name] = r.IntN(3)
			nodes[name] = fmt.Sprint(cpu + left[name])
		}
		wanted := 1 + r.IntN(8)
		w := evicting(nodes, running, 100, []wants{{"", fmt.Sprint(wanted)}})
		size := map[string]int{}
		for _, pod := range w.Pods {
			size[pod.Namespace+"/"+pod.Name] = int(pod.Spec.Containers[0].Resources.Requests.Cpu().Value())
		}
		gone, on := evictedPods(t, w, victimTiers)
		node := on[schedtest.Namespace+"/gang-0"]
		freed := left[node]
		for _, name := range gone {
			freed += size[name]
		}
		for _, name := range gone {
			evictions++
			if freed-size[name] >= wanted {
				t.Errorf("seed %d: %s is evicted although %d cpus are free without that, and %d are needed", seed, name, freed-size[name], wanted)
			}
		}
		if node != "" && freed < wanted {
			t.Errorf("seed %d: %d cpus are free on %s after the evictions, but %d are needed", seed, freed, node, wanted)
		}
		if possible := slices.ContainsFunc(slices.Collect(maps.Keys(nodes)), func(name string) bool {
			free := left[name]
			for _, run := range running {
				if run.node == name && run.priority < 100 {
					n, _ := strconv.Atoi(run.cpu)
					free += n
				}
			}
			return free >= wanted
		}); possible != (node != "") {
			t.Errorf("seed %d: the member can be placed: %t, but it is nominated to %q", seed, possible, node)
		}
	}
	if evictions < 40 {
		t.Errorf("only %d pods were evicted in all cases", evictions)
	}
}

// TestTopologyAwarePreemptionIsLeftAlone: topology-aware preemption reduces the number of victims itself, so the plugin
// does not.
func TestTopologyAwarePreemptionIsLeftAlone(t *testing.T) {
	for conf, want := range map[string]int{"": 1, "configurations:\n- name: preempt\n  arguments:\n    enableTopologyAwarePreemption: true\n": 3} {
		cluster := sessiontest.New(evicting(map[string]string{"n1": "6"}, []runs{{"n1", "a", 30, "2"}, {"n1", "b", 20, "2"}, {"n1", "c", 10, "2"}}, 100, []wants{{"", "2"}}))
		registry := framework.NewRegistry()
		registry.RegisterPlugin(Spec())
		ssn := cluster.Open(registry, victimTiers+conf)
		ssn.Action = preempt
		for _, preemptor := range ssn.Jobs[schedtest.Namespace+"/gang"].Tasks {
			if got := ssn.Preemptable(preemptor, slices.Collect(maps.Values(ssn.Nodes["n1"].Tasks))); len(got) != want {
				t.Errorf("with configuration %q the number of victims is %d, want %d", conf, len(got), want)
			}
		}
		ssn.Close()
		cluster.Close()
	}
}
