// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func preemptPlan(t *testing.T, args ...string) *plan {
	t.Helper()
	p, err := parsePlan(append([]string{"--filler-cpus", "4", "--schedulers", "upstream,ours", "--mode", "live"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFillersTakeEachCPU(t *testing.T) {
	p := preemptPlan(t, "--nodes", "7", "--gangs", "1", "--lone-gangs", "1")
	nodes := []string{"a", "b", "c", "d", "e", "f", "g"}
	cpus, pods := map[string]int64{}, 0
	for _, g := range p.fillerGangs(ours, nodes) {
		if g.podGroup.Spec.MinMember != 1 || g.podGroup.Spec.PriorityClassName != "" || len(g.pods) > fillerGang {
			t.Errorf("PodGroup %s has %d pods, minMember %d and priority class %q", g.name, len(g.pods), g.podGroup.Spec.MinMember, g.podGroup.Spec.PriorityClassName)
		}
		for _, pod := range g.pods {
			pods++
			cpus[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
	}
	if diff := cmp.Diff(map[string]int64{"a": 32, "b": 32, "c": 32, "d": 32, "e": 32, "f": 32, "g": 32}, cpus); diff != "" {
		t.Errorf("requested CPUs by node (-want +got):\n%s", diff)
	}
	if pods != p.fillers() {
		t.Errorf("%d fillers, fillers() returns %d", pods, p.fillers())
	}
}

func TestPoolsDivideThePods(t *testing.T) {
	p := preemptPlan(t, "--gangs", "1", "--gang-size", "1")
	got := map[string]string{}
	for _, g := range append(load(trialKey{Scheduler: ours, Placement: full}, p, nil), p.newGang(ours, "small", 1, nil)) {
		got[g.name] = g.pods[0].Spec.NodeSelector[poolLabel] + " " + g.pods[0].Spec.PriorityClassName + " " + g.podGroup.Spec.PriorityClassName
	}
	if diff := cmp.Diff(map[string]string{"gang-0000": "full urgent urgent", "small": "free  "}, got); diff != "" {
		t.Errorf("pool and priority classes (-want +got):\n%s", diff)
	}
	shapes := p.nodeShapes()
	if len(shapes) != 2 || shapes[0].Count != 1000 || shapes[1].First != 1000 {
		t.Errorf("node shapes: %+v", shapes)
	}
	if pods := (p.loneGangs+smallGangs)*p.loneSize + 2; shapes[1].Count*nodeCPUs < pods {
		t.Errorf("%d free nodes of %d cpus have no room for %d pods", shapes[1].Count, nodeCPUs, pods)
	}
}

func TestEvictionsNeeded(t *testing.T) {
	tests := map[string]struct {
		args []string
		want int
	}{
		"gangs share what a filler leaves": {[]string{"--gangs", "20"}, 250},
		"a part of a filler is a filler":   {[]string{"--gangs", "1"}, 13},
		"each pod takes a filler's place":  {[]string{"--gangs", "20", "--filler-cpus", "1"}, 1000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := preemptPlan(t, tc.args...).evictionsNeeded(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestEvictionsAreCountedOnce(t *testing.T) {
	now := metav1.Now()
	pod := func(name string, deleted *metav1.Time, status corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, DeletionTimestamp: deleted},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status}}},
		}
	}
	w := &evictionWatch{evicted: map[string]bool{}}
	w.updated(nil, pod("runs", nil, corev1.ConditionFalse))
	w.updated(nil, pod("target", nil, corev1.ConditionTrue))
	w.updated(nil, pod("target", &now, corev1.ConditionTrue))
	w.deleted(pod("target", &now, corev1.ConditionTrue))
	w.updated(nil, pod("terminating", &now, corev1.ConditionFalse))
	w.deleted(cache.DeletedFinalStateUnknown{Key: namespace + "/missed"})
	if got := w.count(); got != 3 {
		t.Errorf("counted %d evictions, want 3: %v", got, w.evicted)
	}
}

func TestBothSchedulersPreempt(t *testing.T) {
	p := preemptPlan(t)
	for _, scheduler := range p.schedulers {
		opts, err := schedulerOptions(trialKey{Scheduler: scheduler, Placement: full}, p)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(opts.Conf, "allocate, preempt, backfill") {
			t.Errorf("%s has no action preempt:\n%s", scheduler, opts.Conf)
		}
	}
}

func TestAnUnboundSmallGangCountsUntilTheLimit(t *testing.T) {
	m := &smallStream{stop: func() {}}
	start := time.Now().Add(-time.Hour)
	m.add(&gang{name: "late"}, start, func() (time.Duration, error) { return 0, errLimit })
	whole, tails, err := m.finish()
	if err != nil || len(whole) != 1 || whole[0] < time.Hour || tails[0] != whole[0] {
		t.Errorf("whole %v, tails %v, error %v", whole, tails, err)
	}
	m.add(&gang{name: "lost"}, start, func() (time.Duration, error) { return 0, io.ErrUnexpectedEOF })
	if _, _, err := m.finish(); err == nil || err.Error() != "small gang lost: unexpected EOF" {
		t.Errorf("got error %v", err)
	}
}

func TestReportOfABurst(t *testing.T) {
	before := smallTimes{Gangs: 20, P50MS: 40, MaxMS: 50, WholeMaxMS: 60}
	results := []result{
		{trialKey: trialKey{upstream, live, full, 1}, Burst: burst{Seconds: 300, Unbound: 7, Evicted: 900, Needed: 250,
			Before: before, During: smallTimes{Gangs: 100, P50MS: 5000, MaxMS: 9000, WholeMaxMS: 9010}}},
		{trialKey: trialKey{ours, live, full, 1}, Burst: burst{Seconds: 4, Evicted: 251, Needed: 250,
			Before: before, During: smallTimes{Gangs: 12, P50MS: 60, MaxMS: 110, WholeMaxMS: 120}}},
	}
	var out strings.Builder
	const missed = "live: 1.004 evictions issued for each needed, want at most 1"
	if err := report(&out, preemptPlan(t), results); err == nil || err.Error() != missed {
		t.Errorf("got error %v, want %s", err, missed)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if cells := strings.Fields(line); len(cells) > 0 {
			got = append(got, strings.Join(cells, " "))
		}
	}
	want := []string{
		"1000 nodes run 8000 pods of 4 cpus. 100 gangs of 50 pods of 1 cpu and higher priority arrive. kwok ends victims at once.",
		"scheduler mode run all bound unbound evictions evictions small before during delay whole max sched CPU peak mem foreign CPU",
		"s pods issued needed p50 ms max ms gangs p50 ms max ms ms ms s MB s",
		"upstream live 1 not within 300 7 900 250 40 50 100 5000 9000 8960 9010 0.0 0 0.0",
		"ours live 1 4.00 0 251 250 40 50 12 60 110 70 120 0.0 0 0.0",
		"live: all bound at least 75.0 times sooner than with upstream, which does not bind all within 300 s",
		"bars",
		"live 75 times sooner all bound than with upstream's at least 5 met",
		"live 1.004 evictions issued for each needed at most 1 MISSED",
		"live 70 ms of delay of the slowest small gang at most 100 met",
		"live 120 ms from a small gang's first creation to its last bind at most 1000 met",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestRawVictims checks that the raw trial deletes as many pods as are needed, and that no Binding is without a victim.
func TestRawVictims(t *testing.T) {
	p, err := parsePlan([]string{"--filler-cpus", "4", "--schedulers", "raw", "--nodes", "100", "--gangs", "3", "--gang-size", "50"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]string, p.nodes+p.freeNodes())
	for i := range nodes {
		nodes[i] = fmt.Sprint("node-", i)
	}
	victims, names := p.rawVictims(nodes), map[string]bool{}
	for _, g := range load(trialKey{Scheduler: raw, Placement: full}, p, nodes) {
		for _, pod := range g.pods {
			if victims[pod.Name] == nil || pod.Spec.NodeSelector[corev1.LabelHostname] == "" {
				t.Fatalf("pod %s has victim %v and nodeSelector %v, want both", pod.Name, victims[pod.Name], pod.Spec.NodeSelector)
			}
			names[victims[pod.Name].name] = true
		}
	}
	if len(names) != p.evictionsNeeded() {
		t.Errorf("%d victims, want %d", len(names), p.evictionsNeeded())
	}
	s := &testbed{plan: p, key: trialKey{Scheduler: raw}, nodes: nodes}
	if g := s.smallGang("small"); g.pods[0].Namespace != smallNamespace || victims[g.pods[0].Name] != nil {
		t.Errorf("a small gang is in namespace %s with victim %v, want %s and none", g.pods[0].Namespace, victims[g.pods[0].Name], smallNamespace)
	}
}
