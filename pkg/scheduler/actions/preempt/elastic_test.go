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

// TestAnElasticGangLosesThePodsThatHelp checks a gang of four pods that needs two. The gang that needs room may use only the nodes of the
// two pods that lose most. These go, and the other two stay.
func TestAnElasticGangLosesThePodsThatHelp(t *testing.T) {
	for name, conf := range map[string]string{
		"any pods may go":        tiers,
		"plugin gang counts":     strings.Replace(tiers, "    enablePreemptable: false\n", "", 1),
		"a budget counts":        strictTiers,
		"pods go one by one":     strings.Replace(tiers, "%s", ", disruption: pod", 1),
		"beside one rigid gang":  tiers,
		"unlike members at once": tiers,
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{"e-2", "e-3"}
			wants := gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2, pod: on("name", "n2", "n3")}
			gangs := []gang{{name: "e", min: 2, priority: 1, cpu: "4", on: each(4), pod: func(p *schedtest.PodBuilder) { p.Label("a", "yes") }}}
			nodes := nodesOf(4, "4")
			switch name {
			case "beside one rigid gang":
				want, nodes = append(want, "rigid-0", "rigid-1"), nodesOf(6, "4")
				gangs = append(gangs, gang{name: "rigid", min: 2, priority: 1, cpu: "4", on: []string{"n4", "n5"}})
				wants.min, wants.pending, wants.pod = 4, 4, on("name", "n2", "n3", "n4", "n5")
			case "unlike members at once":
				wants.min = 3
			}
			w := world(nodes, append(gangs, wants)...)
			change(&w, func(pod *v1.Pod) {
				started := metav1.NewTime(began.Add(-time.Hour))
				pod.Status.StartTime = &started
			}, "e-2", "e-3")
			if name == "unlike members at once" {
				w.Pods = append(w.Pods, schedtest.MakePod().Name("new-small").Group("new").Priority(9).Req(schedtest.Resources{"cpu": "1"}).Obj())
				change(&w, func(pod *v1.Pod) {
					pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
				}, "new-1")
			}
			w.Objects = append(w.Objects, budgetFor("one", "a", 2))
			if got := runWith(t, w, conf); !cmp.Equal(got.evicted, want) {
				t.Errorf("evicted %v, want %v; reasons: %v", got.evicted, want, got.reasons)
			}
		})
	}
}

// TestAQueueLosesNoMorePodsOfAnElasticGangThanAreSpare checks a full queue. The gang that needs room may use one node only, where a pod
// of gang e goes. Its queue lacks room still, and gang e has no pod to spare.
func TestAQueueLosesNoMorePodsOfAnElasticGangThanAreSpare(t *testing.T) {
	w := world(nodesOf(5, "8"),
		gang{name: "e", queue: "q", min: 3, priority: 1, cpu: "4", on: each(4)},
		gang{name: "other", queue: "q", min: 1, priority: 2, cpu: "4", on: []string{"n4"}},
		gang{name: "new", queue: "q", min: 1, priority: 9, cpu: "6", pending: 1, pod: on("name", "n3")})
	change(&w, func(pod *v1.Pod) {
		started := metav1.NewTime(began.Add(-time.Hour))
		pod.Status.StartTime = &started
	}, "e-3")
	w.Queues = []*v1beta1.Queue{capped("20", deserving("q", "20"))}
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"e-3", "other-0"}) {
		t.Errorf("evicted %v, want e-3 and other-0; reasons: %v", got.evicted, got.reasons)
	}
}

// TestACriticalPodOfAnElasticGangStays checks a gang that plugin gang lets lose one pod. Plugin conformance does not let the pod go that is in
// the way.
func TestACriticalPodOfAnElasticGangStays(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "e", min: 3, priority: 1, cpu: "4", on: each(4)},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: on("name", "n3")})
	change(&w, func(pod *v1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }, "e-3")
	if got := runWith(t, w, strings.Replace(tiers, "    enablePreemptable: false\n", "", 1)); len(got.evicted) > 0 {
		t.Errorf("evicted %v, which are critical or do not help", got.evicted)
	}
}

// TestAnElasticGangGoesWholeIfARuleNeedsMoreThanItsSparePods checks a gang with one spare pod, two of whose pods keep others away by their labels.
func TestAnElasticGangGoesWholeIfARuleNeedsMoreThanItsSparePods(t *testing.T) {
	w := world(nodesOf(3, "4"),
		gang{name: "e", min: 2, priority: 1, cpu: "1", on: each(3), pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "new", min: 2, priority: 9, cpu: "3", pending: 2, pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{
				NodeAffinity: nodesWith("name", "n1", "n2"),
				PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
				}}},
			})
		}})
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"e-0", "e-1", "e-2"}) {
		t.Errorf("evicted %v, want the whole gang; reasons: %v", got.evicted, got.reasons)
	}
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

// TestTheSparePodsOfAGangAreSeenAgain checks a gang that plugin gang lets lose one pod. Two small pods on one node lose the least work, and
// both are in the way of the gang that needs room. One pod is in its way on the other node, among more pods of the gang. That pod comes first once
// the gang has saved its work and all its pods lose as much.
func TestTheSparePodsOfAGangAreSeenAgain(t *testing.T) {
	conf := strings.Replace(simpleTiers, "    enablePreemptable: false\n", "", 1)
	spec := func(checkpoint bool) sessiontest.ClusterSpec {
		w := world(nodesOf(2, "4"),
			gang{name: "e", min: 4, priority: 1, cpu: "4", on: []string{"n0", "n1", "n1", "n0", "n0"}, age: time.Hour},
			gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
		change(&w, func(pod *v1.Pod) {
			started := metav1.NewTime(began.Add(-time.Minute))
			pod.Status.StartTime = &started
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
		}, "e-1", "e-2")
		change(&w, func(pod *v1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("0")}
		}, "e-3", "e-4")
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
