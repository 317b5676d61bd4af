// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// protected marks pods that must not be evicted.
func protected(p *schedtest.PodBuilder) { p.Annotation(v1beta1.PodPreemptable, "false") }

// change applies the function to the pods with these names.
func change(w *sessiontest.ClusterSpec, do func(*v1.Pod), names ...string) {
	for _, pod := range w.Pods {
		if slices.Contains(names, pod.Name) {
			do(pod)
		}
	}
}

// leaves marks the pod as being deleted.
func leaves(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created }

// TestVictimsByTheirGangs checks which pods are evicted of gangs at, above and below their minimum, and of gangs with pods that
// are protected, that terminate or that request nothing. All nodes have 4 CPUs.
func TestVictimsByTheirGangs(t *testing.T) {
	protect := func(pods ...string) func(*sessiontest.ClusterSpec) {
		return func(w *sessiontest.ClusterSpec) {
			change(w, func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.PodPreemptable, "false") }, pods...)
		}
	}
	for name, c := range map[string]struct {
		nodes     int
		gangs     []gang
		change    func(*sessiontest.ClusterSpec)
		evicted   []string
		pipelined int
	}{
		"a gang below its minimum goes whole": {
			nodes: 2,
			gangs: []gang{
				{name: "old", min: 3, priority: 1, cpu: "4", on: each(2)},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			evicted: []string{"old-0", "old-1"}, pipelined: 1,
		},
		"elastic gangs shrink before a gang of lower priority goes": {
			nodes: 6,
			gangs: []gang{
				{name: "e", min: 1, priority: 5, cpu: "4", on: []string{"n0", "n1"}},
				{name: "f", min: 1, priority: 5, cpu: "4", on: []string{"n2", "n3"}},
				{name: "low", min: 2, priority: 1, cpu: "4", on: []string{"n4", "n5"}},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
			},
			evicted: []string{"e-0", "f-0"}, pipelined: 2,
		},
		"an elastic gang shrinks to its minimum and no further": {
			nodes: 6,
			gangs: []gang{
				{name: "e", min: 2, priority: 1, cpu: "4", on: each(4)},
				{name: "other", min: 0, priority: 5, cpu: "4", on: []string{"n4", "n5"}},
				{name: "new", min: 3, priority: 9, cpu: "4", pending: 3},
			},
			evicted: []string{"e-0", "e-1", "other-0"}, pipelined: 3,
		},
		"an elastic gang goes whole once shrinking does not suffice": {
			nodes: 3,
			gangs: []gang{
				{name: "e", min: 2, priority: 1, cpu: "4", on: each(3)},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
			},
			evicted: []string{"e-0", "e-1", "e-2"}, pipelined: 2,
		},
		"protected pods stay": {
			nodes: 2,
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: protected},
				{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			evicted: []string{"dear-0"}, pipelined: 1,
		},
		"pods that a label protects stay": {
			nodes: 2,
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: func(p *schedtest.PodBuilder) { p.Label(v1beta1.PodPreemptable, "false") }},
				{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			evicted: []string{"dear-0"}, pipelined: 1,
		},
		"a protected pod protects the minimum of its gang": {
			nodes: 3,
			gangs: []gang{
				{name: "old", min: 2, priority: 1, cpu: "4", on: each(2)},
				{name: "dear", min: 1, priority: 5, cpu: "4", on: []string{"n2"}},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			change:  protect("old-0"),
			evicted: []string{"dear-0"}, pipelined: 1,
		},
		"a gang shrinks beside its protected pod": {
			nodes: 3,
			gangs: []gang{
				{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			change:  protect("old-0"),
			evicted: []string{"old-1"}, pipelined: 1,
		},
		"resources that terminating pods release are used": {
			nodes: 3,
			gangs: []gang{
				{name: "old", min: 0, priority: 9, cpu: "4", on: []string{"n0"}},
				{name: "low", min: 0, priority: 1, cpu: "4", on: []string{"n1", "n2"}},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 2},
			},
			change:  func(w *sessiontest.ClusterSpec) { change(w, leaves, "old-0") },
			evicted: []string{"low-0"}, pipelined: 2,
		},
		"nothing is evicted if terminating pods release enough": {
			nodes: 2,
			gangs: []gang{
				{name: "old", min: 0, priority: 9, cpu: "4", on: []string{"n0"}},
				{name: "low", min: 0, priority: 1, cpu: "4", on: []string{"n1"}},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			change:    func(w *sessiontest.ClusterSpec) { change(w, leaves, "old-0") },
			pipelined: 1,
		},
		"a gang that requests nothing evicts nothing": {
			nodes: 1,
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "0", on: slices.Repeat(each(1), 20)}, // a node takes 20 pods
				{name: "new", min: 1, priority: 9, cpu: "0", pending: 1},
			},
		},
		"pods that request nothing stay": {
			nodes: 1,
			gangs: []gang{
				{name: "free", min: 0, priority: 1, cpu: "0", on: each(1)},
				{name: "old", min: 0, priority: 5, cpu: "4", on: each(1)},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			evicted: []string{"old-0"}, pipelined: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(c.nodes, "4"), c.gangs...)
			if c.change != nil {
				c.change(&w)
			}
			got := runWith(t, w, simpleTiers)
			if !slices.Equal(got.evicted, c.evicted) || len(got.pipelined) != c.pipelined {
				t.Errorf("evicted %v, want %v; members wait on %v, want %d; reason: %s", got.evicted, c.evicted, got.pipelined, c.pipelined, got.reasons["new"])
			}
		})
	}
}

// inSubGroups puts the gang's pods two by two into sub-groups, of which the gang needs the given number.
func inSubGroups(w *sessiontest.ClusterSpec, gang string, needed int32) *v1beta1.PodGroup {
	i := slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == gang })
	of := w.PodGroups[i]
	of.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("pairs", "pair", needed, 2).Obj().Spec.SubGroupPolicy
	members := 0
	for _, pod := range w.Pods {
		if pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == gang {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, "pair", string(rune('a'+members/2)))
			members++
		}
	}
	return of
}

// TestSubGroups checks gangs of sub-groups of two pods, as victims and as gangs that need room.
func TestSubGroups(t *testing.T) {
	for name, c := range map[string]struct {
		gangs     []gang
		pairs     string // the gang with sub-groups
		needed    int32
		evicted   []string
		pipelined []string
	}{
		"a gang of sub-groups goes whole": {
			gangs: []gang{
				{name: "old", min: 2, priority: 1, cpu: "4", on: each(4)},
				{name: "new", min: 1, priority: 9, cpu: "4", pending: 1},
			},
			pairs: "old", needed: 1,
			evicted: []string{"old-0", "old-1", "old-2", "old-3"}, pipelined: []string{"new-0"},
		},
		"room is made for all sub-groups": {
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: each(4)},
				{name: "new", min: 4, priority: 9, cpu: "4", pending: 4},
			},
			pairs: "new", needed: 2,
			evicted: []string{"old-0", "old-1", "old-2", "old-3"}, pipelined: []string{"new-0", "new-1", "new-2", "new-3"},
		},
		"nothing is evicted if one sub-group has no room": {
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: each(3)},
				{name: "same", min: 0, priority: 9, cpu: "4", on: []string{"n3"}},
				{name: "new", min: 4, priority: 9, cpu: "4", pending: 4},
			},
			pairs: "new", needed: 2,
		},
		"room is made for as many sub-groups as the minimum needs": {
			gangs: []gang{
				{name: "old", min: 0, priority: 1, cpu: "4", on: each(4)},
				{name: "new", min: 2, priority: 9, cpu: "4", pending: 4},
			},
			pairs: "new", needed: 1,
			evicted: []string{"old-0", "old-1"}, pipelined: []string{"new-0", "new-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(4, "4"), c.gangs...)
			inSubGroups(&w, c.pairs, c.needed)
			got := runWith(t, w, simpleTiers)
			var pipelined []string
			for pod := range got.pipelined {
				pipelined = append(pipelined, pod)
			}
			if slices.Sort(pipelined); !slices.Equal(got.evicted, c.evicted) || !slices.Equal(pipelined, c.pipelined) {
				t.Errorf("evicted %v, want %v; %v wait, want %v; reason: %s", got.evicted, c.evicted, pipelined, c.pipelined, got.reasons["new"])
			}
		})
	}
}

// TestHyperNodesAreFreedForSubGroups checks a gang of two sub-groups of two members each, of which each sub-group needs one HyperNode.
// A pod of high priority keeps it out of one of the three HyperNodes.
func TestHyperNodesAreFreedForSubGroups(t *testing.T) {
	w := world(nodesOf(6, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n2", "n3", "n4", "n5"}},
		gang{name: "high", min: 1, priority: 9, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 4, priority: 9, cpu: "4", pending: 4})
	for i := range 3 {
		w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name(fmt.Sprint("h", i)).Tier(1).Nodes(fmt.Sprint("n", 2*i), fmt.Sprint("n", 2*i+1)).Obj())
	}
	tier := 1
	inSubGroups(&w, "new", 2).Spec.SubGroupPolicy[0].NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
	got := run(t, w, "")
	if want := []string{"old-1", "old-2", "old-3", "old-4"}; !slices.Equal(got.evicted, want) || len(got.pipelined) != 4 {
		t.Fatalf("evicted %v, want %v; %v wait; reason: %s", got.evicted, want, got.pipelined, got.reasons["new"])
	}
	hyperNode := func(pod string) string {
		return map[string]string{"n2": "h1", "n3": "h1", "n4": "h2", "n5": "h2"}[got.pipelined[pod]]
	}
	for _, pair := range [][2]string{{"new-0", "new-1"}, {"new-2", "new-3"}} {
		if first, second := hyperNode(pair[0]), hyperNode(pair[1]); first != second {
			t.Errorf("%s waits in HyperNode %s and %s in %s, want one HyperNode for the sub-group", pair[0], first, pair[1], second)
		}
	}
}
