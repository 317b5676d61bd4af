// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// strictTiers has plugin pdb, so that no PodDisruptionBudget is broken.
var strictTiers = strings.Replace(tiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1)

// nodesWith returns the affinity to nodes whose label has one of the values.
func nodesWith(label string, values ...string) *v1.NodeAffinity {
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: values}},
	}}}}
}

// on lets pods use only nodes whose label has one of the values.
func on(label string, values ...string) func(*schedtest.PodBuilder) {
	return func(p *schedtest.PodBuilder) { p.Affinity(v1.Affinity{NodeAffinity: nodesWith(label, values...)}) }
}

// TestTwoGangsGetASparePodEach checks that pods evicted for one gang do not count twice against the minimum of their gang, if plugins
// gang and pdb choose victims.
func TestTwoGangsGetASparePodEach(t *testing.T) {
	conf := strings.Replace(strictTiers, "    enablePreemptable: false\n", "", 1)
	w := world(nodesOf(4, "4"),
		gang{name: "e", min: 2, priority: 1, cpu: "4", on: each(4), pod: func(p *schedtest.PodBuilder) { p.Label("a", "no") }},
		gang{name: "first", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "second", min: 1, priority: 9, cpu: "4", pending: 1})
	if got := runWith(t, w, conf); len(got.evicted) != 2 {
		t.Errorf("evicted %v, want two spare pods; %v", got.evicted, got.reasons)
	}
}

// TestTheSparePodsOfAGangAreSeenAgain checks a gang that plugin gang lets lose one pod: the one that loses the least work. That pod is
// too small for the gang that needs room, until the gang has saved its work and both pods lose as much.
func TestTheSparePodsOfAGangAreSeenAgain(t *testing.T) {
	conf := strings.Replace(simpleTiers, "    enablePreemptable: false\n", "", 1)
	spec := func(checkpoint bool) sessiontest.ClusterSpec {
		w := world(nodesOf(2, "4"),
			gang{name: "e", min: 1, priority: 1, cpu: "4", on: each(2), age: time.Hour},
			gang{name: "same", min: 1, priority: 9, cpu: "2", on: []string{"n1"}},
			gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
		change(&w, func(pod *v1.Pod) {
			started := metav1.NewTime(began.Add(-time.Minute))
			pod.Status.StartTime = &started
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
		}, "e-1")
		if checkpoint {
			podGroupOf(&w, "e").Annotations = map[string]string{CheckpointAnnotation: began.Add(-time.Second).UTC().Format(time.RFC3339)}
		}
		return w
	}
	before, after := spec(false), spec(true)
	c := newLiveCluster(before, conf)
	defer c.close()
	for range 2 {
		if got := c.session(); len(got.evicted) > 0 {
			t.Fatalf("evicted %v; reasons: %v", got.evicted, got.reasons)
		}
	}
	c.showChanges(before, after)
	if got := c.session(); !cmp.Equal(got.evicted, []string{"e-0"}) {
		t.Errorf("evicted %v, want e-0; reasons: %v", got.evicted, got.reasons)
	}
}

// TestTwoGangsDoNotLeaveAGangBelowItsMinimum checks two gangs that need pods of the same gang on different nodes. It may lose two of four
// pods, or all.
func TestTwoGangsDoNotLeaveAGangBelowItsMinimum(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "e", min: 2, priority: 1, cpu: "4", on: each(4)},
		gang{name: "first", min: 2, priority: 9, cpu: "4", pending: 2, pod: on("name", "n2", "n3")},
		gang{name: "second", min: 1, priority: 9, cpu: "4", pending: 1, pod: on("name", "n0", "n1")})
	got := run(t, w, "")
	if len(got.evicted) != 2 && len(got.evicted) != 4 {
		t.Errorf("evicted %v: want two or four pods of a gang that needs two; %v %v", got.evicted, got.pipelined, got.reasons)
	}
}

// TestAQueueLosesAGangWithItsSparePods checks a full queue with a gang of three pods that needs two. A budget protects the third. The two
// do not go without it.
func TestAQueueLosesAGangWithItsSparePods(t *testing.T) {
	for name, conf := range map[string]string{"loose": tiers, "strict": strictTiers} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(4, "4"),
				gang{name: "e", queue: "q", min: 2, priority: 1, cpu: "4", on: each(3)},
				gang{name: "new", queue: "q", min: 1, priority: 9, cpu: "4", pending: 1})
			w.Queues = []*v1beta1.Queue{capped("12", deserving("q", "12"))}
			changePods(&w, "e-0", labelA)
			w.Objects = append(w.Objects, budgetFor("one", "a", 0))
			got := runWith(t, w, conf)
			if cmp.Equal(got.evicted, []string{"e-1", "e-2"}) {
				t.Errorf("evicted %v: the spare pod e-0 stays alone; %v %v", got.evicted, got.pipelined, got.reasons)
			}
		})
	}
}

// TestAQueueLosesAGangWithAPodThatRequestsNothing checks a full queue with a gang of three pods that needs two, of which one requests
// nothing. The other two do not go without it.
func TestAQueueLosesAGangWithAPodThatRequestsNothing(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "e", queue: "q", min: 2, priority: 1, cpu: "4", on: each(3)},
		gang{name: "new", queue: "q", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Queues = []*v1beta1.Queue{capped("8", deserving("q", "8"))}
	changePods(&w, "e-0", func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"memory": resource.MustParse("0")}
	})
	got := run(t, w, "")
	if cmp.Equal(got.evicted, []string{"e-1", "e-2"}) {
		t.Errorf("evicted %v: the spare pod e-0 stays alone; %v %v", got.evicted, got.pipelined, got.reasons)
	}
}

// TestAnEvictionIsSentOnceAndStands checks a gang for which a spare pod of gang e is evicted, and then one for which the rest of gang e would have
// to go, because of anti-affinity. If other pods stay, the second gets no room, and the first eviction stands.
func TestAnEvictionIsSentOnceAndStands(t *testing.T) {
	noisy := func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }
	apart := func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{
			NodeAffinity: nodesWith("name", "n1", "n2"),
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
			}}},
		})
	}
	for name, others := range map[string][]gang{
		"the rest of the gang goes": nil,
		"other pods stay":           {{name: "stays", min: 1, priority: 9, cpu: "1", on: []string{"n1", "n2"}, pod: noisy}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLiveCluster(world(nodesOf(3, "4"), append([]gang{
				{name: "e", min: 2, priority: 1, cpu: "1", on: each(3), pod: noisy},
				{name: "first", min: 1, priority: 9, cpu: "4", pending: 1, pod: on("name", "n0")},
				{name: "second", min: 1, priority: 9, cpu: "1", pending: 1, pod: apart},
			}, others...)...), simpleTiers)
			defer c.close()
			ssn := c.scheduler.Open()
			ssn.Run(c.actions...)
			for _, task := range ssn.Jobs[schedtest.Namespace+"/e"].Tasks {
				if task.Name == "e-0" && task.Status != api.Releasing {
					t.Errorf("e-0, which was evicted for the first gang, has status %s", task.Status)
				}
			}
			ssn.Close()
			evicted := ssn.Evicts()
			slices.Sort(evicted)
			if len(evicted) == 0 || len(slices.Compact(slices.Clone(evicted))) < len(evicted) {
				t.Errorf("evicted %v, want each pod at most once, and e-0", evicted)
			}
		})
	}
}

// TestAPostponedGangDoesNotSpeakForOthers checks a session that searches only for a gang that has waited for its search. Another gang that
// asks for the same is postponed before it.
func TestAPostponedGangDoesNotSpeakForOthers(t *testing.T) {
	c := newLiveCluster(world(nodesOf(1, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: each(1)},
		gang{name: "a-new", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "b-owed", min: 1, priority: 9, cpu: "4", pending: 1}), simpleTiers)
	defer c.close()
	p := &c.action.memory.pace
	p.begin(nil)
	p.next = map[api.JobID]bool{schedtest.Namespace + "/b-owed": true}
	if got := c.session(); !slices.Equal(got.evicted, []string{"old-0"}) {
		t.Errorf("evicted %v, want old-0 for the gang that has waited; reasons: %v", got.evicted, got.reasons)
	}
}
