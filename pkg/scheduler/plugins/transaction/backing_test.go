// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAPromiseNeedsPodsThatFit: nodes n, m and small have 8, 8 and 2 cpu, and other pods use all of them. The promise counts for as long as the pods would fit if the
// nodes were empty. Otherwise it ends after promiseFor, and counts against the namespace.
func TestAPromiseNeedsPodsThatFit(t *testing.T) {
	on := func(value string) func(*schedtest.PodBuilder) {
		return func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", value) }
	}
	oneOf := func(key string) func(*schedtest.PodBuilder) {
		return func(pod *schedtest.PodBuilder) {
			pod.Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "is", Operator: v1.NodeSelectorOpIn, Values: []string{"small", key}}}},
			}}}})
		}
	}
	tests := map[string]struct {
		asks  string
		pods  func(w *promisingWorld)
		nodes func(w *promisingWorld)
		fit   bool
	}{
		"pods fit on any node":               {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 4, "4") }, fit: true},
		"two kinds fit beside each other":    {asks: "18", pods: func(w *promisingWorld) { w.addPods("g", 2, "8"); w.addPods("g", 1, "2", on("small")) }, fit: true},
		"more pods exist than were promised": {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 40, "4") }, fit: true},
		"a member runs, the others fit": {asks: "16", fit: true, pods: func(w *promisingWorld) {
			w.addPods("g", 1, "8", func(pod *schedtest.PodBuilder) { pod.Node("n").Phase(v1.PodRunning) })
			w.addPods("g", 1, "8")
		}},
		"each pod names its node": {asks: "16", fit: true, pods: func(w *promisingWorld) {
			for _, node := range []string{"n", "m"} {
				w.addPods("g", 1, "8", func(pod *schedtest.PodBuilder) { pod.NodeSelector(v1.LabelHostname, node) })
			}
		}},
		"pods exist for a part": {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 3, "4") }},
		"pods have scheduling gates for a part": {asks: "16", pods: func(w *promisingWorld) {
			w.addPods("g", 1, "4")
			w.addPods("g", 1, "8", func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") })
		}},
		"pods select no node":        {asks: "8", pods: func(w *promisingWorld) { w.addPods("g", 1, "8", on("missing")) }},
		"pods select one small node": {asks: "8", pods: func(w *promisingWorld) { w.addPods("g", 4, "2", on("small")) }},
		"pods of many kinds share one small node": {asks: "8", pods: func(w *promisingWorld) {
			for i := range 8 {
				w.addPods("g", 1, "2", oneOf(fmt.Sprint("missing", i)))
			}
		}},
		"a member runs on the one node that the others select": {asks: "4", pods: func(w *promisingWorld) {
			w.addPods("g", 1, "2", func(pod *schedtest.PodBuilder) { pod.Node("small").Phase(v1.PodRunning) })
			w.addPods("g", 1, "2", on("small"))
		}},
		"a pod is larger than any node":         {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 1, "16") }},
		"only one pod of each node's size fits": {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 4, "5") }},
		"more pods than nodes":                  {asks: "20", pods: func(w *promisingWorld) { w.addPods("g", 5, "4") }},
		"pods do not tolerate a taint": {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 2, "8") }, nodes: func(w *promisingWorld) {
			w.nodes["m"].Node.Spec.Taints = []v1.Taint{{Key: "down", Effect: v1.TaintEffectNoExecute}}
		}},
		"a taint only discourages pods": {asks: "16", fit: true, pods: func(w *promisingWorld) { w.addPods("g", 2, "8") }, nodes: func(w *promisingWorld) {
			w.nodes["m"].Node.Spec.Taints = []v1.Taint{{Key: "old", Effect: v1.TaintEffectPreferNoSchedule}}
		}},
		"a node is cordoned": {asks: "16", pods: func(w *promisingWorld) { w.addPods("g", 2, "8") }, nodes: func(w *promisingWorld) { w.nodes["m"].Node.Spec.Unschedulable = true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newPromisingWorld()
			w.addNode(schedtest.MakeNode().Name("m"))
			w.addNode(schedtest.MakeNode().Name("small").Label("is", "small").Capacity(schedtest.Resources{"cpu": "2", "memory": "16Gi", "pods": "110"}))
			if tt.nodes != nil {
				tt.nodes(w)
			}
			w.asks = tt.asks
			w.admitted("g", 0)
			tt.pods(w)
			var got []bool
			for _, after := range []time.Duration{time.Second, promiseFor - 1, promiseFor, promiseFor + time.Second, time.Hour - 1} {
				w.session(after)
				got = append(got, w.p.admitted["g"] != nil)
			}
			if diff := cmp.Diff([]bool{true, true, tt.fit, tt.fit, tt.fit}, got); diff != "" {
				t.Errorf("the promise counts (-want +got):\n%s", diff)
			}
			if lapsed := w.p.broken("ns"); lapsed == tt.fit {
				t.Errorf("the promise counts against the namespace: %t", lapsed)
			}
		})
	}
}

// TestPodsThatCannotRunCostTheirNamespaceItsPromises: a tenant makes one gang after the other, each with a pod that fits nowhere, and deletes it before its promise ends.
func TestPodsThatCannotRunCostTheirNamespaceItsPromises(t *testing.T) {
	w := newPromisingWorld()
	var now, kept time.Duration
	for round := range 30 {
		name := fmt.Sprint("g", round)
		w.admitted(name, now)
		w.addPods(name, 1, "8", func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "missing") })
		if now += promiseFor - time.Second; w.kept(name, now) > 0 {
			kept += promiseFor - time.Second
		}
		delete(w.jobs, api.JobID(name))
		now += time.Second
		w.session(now)
	}
	if most := 2 * promiseFor; kept > most {
		t.Errorf("resources were reserved for %v of %v, want at most %v", kept, now, most)
	}
}

// TestAPromiseSurvivesAMissingNode: nodes are away for a moment when the pods are checked. If they are away for promiseFor, the promise ends.
func TestAPromiseSurvivesAMissingNode(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	w.addPods("g", 2, "4")
	got := []float64{w.kept("g", time.Second)}
	n := w.nodes["n"]
	delete(w.nodes, "n")
	got = append(got, w.kept("g", promiseFor+time.Second))
	w.nodes["n"] = n
	got = append(got, w.kept("g", 2*promiseFor+time.Second), w.kept("g", 3*promiseFor+time.Second))
	delete(w.nodes, "n")
	got = append(got, w.kept("g", 4*promiseFor+time.Second), w.kept("g", 5*promiseFor+time.Second))
	if diff := cmp.Diff([]float64{8, 8, 8, 8, 8, 0}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// TestAPromiseEndsBesideIdleResources: pods may fit nowhere for reasons that only the plugins know, such as a claim that does not exist. A gang that waits for
// resources keeps its promise. The time in which resources sufficed counts in total.
func TestAPromiseEndsBesideIdleResources(t *testing.T) {
	tests := map[string]struct {
		// idle are the idle cpus of the node at a time.
		idle func(now time.Duration) float64
		// until is when the promise ends; 0 if it does not end.
		until time.Duration
	}{
		"a busy cluster": {idle: func(time.Duration) float64 { return 0 }},
		"too few idle":   {idle: func(time.Duration) float64 { return 7 }},
		"enough idle":    {idle: func(time.Duration) float64 { return 8 }, until: promiseFor},
		"enough idle at times, for one session each": {idle: func(now time.Duration) float64 { return float64(now / (10 * time.Second) % 2 * 8) }, until: promiseFor},
		"enough idle for half of the time": {idle: func(now time.Duration) float64 {
			return float64(now / time.Minute % 2 * 8)
		}, until: 3*time.Minute + 40*time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newPromisingWorld()
			w.admitted("g", 0)
			w.addPods("g", 2, "4")
			ended := time.Duration(0)
			for now := time.Duration(0); now < time.Hour && ended == 0; now += 10 * time.Second {
				w.setIdle(tt.idle(now))
				if w.kept("g", now) == 0 {
					ended = now
				}
			}
			if ended != tt.until {
				t.Errorf("the promise ends after %s, want %s", ended, tt.until)
			}
			w.admitted("next", time.Hour-1)
			w.addPods("next", 2, "4")
			if w.setIdle(0); w.kept("next", time.Hour-1) != 8 {
				t.Error("nothing is promised to the next gang of the namespace on a busy cluster")
			}
			w.setIdle(8)
			w.session(time.Hour)
			if got := w.kept("next", time.Hour+time.Second) == 8; got == (tt.until > 0) {
				t.Errorf("beside idle resources, the promise to the next gang counts: %t", got)
			}
		})
	}
}

// TestChecksOfASessionAreBounded: a tenant has a hundred gangs, each of pods that look at all of a thousand nodes. Each session checks some of them, and each gang has its turn.
func TestChecksOfASessionAreBounded(t *testing.T) {
	w := newPromisingWorld()
	for i := range 1000 {
		w.addNode(schedtest.MakeNode().Name(fmt.Sprint("n", i)))
	}
	for i := range 200 {
		name := fmt.Sprint("g", i)
		w.admitted(name, 0)
		w.addPods(name, 1, "8", func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "missing") })
	}
	checked := func() (n int) {
		for _, made := range w.p.admitted {
			if !made.checked.IsZero() {
				n++
			}
		}
		return n
	}
	var got []int
	for i := range 4 {
		w.session(time.Duration(i+1) * time.Second)
		got = append(got, checked())
	}
	if diff := cmp.Diff([]int{99, 198, 200, 200}, got); diff != "" {
		t.Errorf("gangs checked after each session (-want +got):\n%s", diff)
	}
}

// TestAGangOfTooManyKindsIsCheckedOnce: its check needs more looks than a session has. Pods that were not looked at do not count.
func TestAGangOfTooManyKindsIsCheckedOnce(t *testing.T) {
	w := newPromisingWorld()
	for i := range 1000 {
		w.addNode(schedtest.MakeNode().Name(fmt.Sprint("n", i)))
	}
	w.asks = "200"
	w.admitted("g", 0)
	for i := range 200 {
		w.addPods("g", 1, "1", func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", fmt.Sprint("missing", i)) })
	}
	w.session(time.Second)
	if w.p.admitted["g"].checked.IsZero() {
		t.Error("the check is not done")
	}
	if w.session(promiseFor); w.p.admitted["g"] != nil {
		t.Error("the promise did not end")
	}
}
