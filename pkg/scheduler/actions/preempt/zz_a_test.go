package preempt

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var _ = fmt.Sprint
var _ = v1.PodRunning
var _ metav1.Time

func show(t *testing.T, o outcome) { t.Logf("evicted %d: %v\npipelined %v\nreasons %v", len(o.evicted), o.evicted, o.pipelined, o.reasons) }

func TestZZDoubleEvict(t *testing.T) {
	show(t, run(t, world(nodesOf(3, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: []string{"n0", "n1", "n2"}},
		gang{name: "new-a", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "new-b", min: 2, priority: 9, cpu: "4", pending: 2}), ""))
}

// core + spare evicted by the second gang, whose trial then fails: is the first gang's victim restored?
func TestZZDoubleEvictUndone(t *testing.T) {
	avoids := func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
		}}}})
	}
	show(t, run(t, world(nodesOf(3, "5"),
		gang{name: "noisy", min: 1, priority: 9, cpu: "1", on: []string{"n1"}, pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: []string{"n0", "n1", "n2"}},
		gang{name: "new-a", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "new-b", min: 2, priority: 9, cpu: "4", pending: 2, pod: avoids},
		), ""))
}

// best-effort member
func TestZZBestEffort(t *testing.T) {
	w := world(nodesOf(6, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1", "n2", "n3", "n4", "n5"}},
		gang{name: "new", min: 3, priority: 9, cpu: "4", pending: 6})
	w.Pods = append(w.Pods, schedtest.MakePod().Name("be").Group("new").Priority(9).Obj())
	show(t, run(t, w, ""))
	w = world(nodesOf(6, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n1", "n2", "n3", "n4", "n5"}},
		gang{name: "new", min: 3, priority: 9, cpu: "4", pending: 2})
	w.Pods = append(w.Pods, schedtest.MakePod().Name("be").Group("new").Priority(9).Obj())
	show(t, run(t, w, ""))
}

func many(n int, f string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(f, i))
	}
	return out
}

// queue full, with idle nodes
func TestZZQueueFull(t *testing.T) {
	w := world(nodesOf(100, "8"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: many(80, "n%d")},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("team").Weight(1).Capability(schedtest.Resources{"cpu": "320"}).Obj())
	for _, pg := range w.PodGroups {
		pg.Spec.Queue = "team"
	}
	show(t, run(t, w, ""))
}

// elastic gang, all-units plan
func TestZZElasticAll(t *testing.T) {
	avoids := func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
		}}}})
	}
	w := world(nodesOf(60, "8"),
		gang{name: "quiet", min: 0, priority: 1, cpu: "4", on: many(60, "n%d")},
		gang{name: "noisy", min: 0, priority: 5, cpu: "1", on: many(60, "n%d"), pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "new", min: 1, priority: 9, cpu: "3", pending: 1, pod: avoids})
	o := run(t, w, "")
	show(t, o)
	w = world(nodesOf(60, "8"),
		gang{name: "quiet", min: 0, priority: 1, cpu: "4", on: many(60, "n%d")},
		gang{name: "noisy", min: 0, priority: 5, cpu: "1", on: many(60, "n%d"), pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "new", min: 1, priority: 9, cpu: "3", pending: 60, pod: avoids})
	show(t, run(t, w, ""))
}

// >8 classes
func TestZZManyClasses(t *testing.T) {
	w := world(nodesOf(3, "20"),
		gang{name: "old", min: 0, priority: 1, cpu: "20", on: many(3, "n%d")},
		gang{name: "new", min: 10, priority: 9, cpu: "1", pending: 1})
	for i := range 9 {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("new-x%d", i)).Group("new").Priority(9).Req(schedtest.Resources{"cpu": fmt.Sprintf("%dm", 1100+100*i)}).Obj())
	}
	show(t, run(t, w, ""))
}

func TestZZNoHyper(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: many(2, "n%d")},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	tier := 1
	for _, pg := range w.PodGroups {
		if pg.Name == "new" {
			pg.Spec.NetworkTopology = netTopo(tier)
		}
	}
	show(t, run(t, w, ""))
}
