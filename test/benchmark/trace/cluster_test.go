// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var twoNodes = &trace{nodes: []node{{16_000, 64 * gi, 2, "A"}, {16_000, 64 * gi, 1, "B"}}}

func TestJobsOfASessionArePlacedInTheOrderInWhichTheyArrive(t *testing.T) {
	whole, part, onB := task{1000, gi, 1, 1000, ""}, task{1000, gi, 1, 505, ""}, task{1000, gi, 1, 1000, "B"}
	c := newCluster(twoNodes, "Fragmentation")
	defer c.Close()
	steps := []struct {
		arriving [][]task
		want     []bool
	}{
		{[][]task{{onB}, {part}, {part}, {onB}, {part}}, []bool{true, true, true, false, false}}, // 51 hundredths: one per GPU
		{[][]task{{whole}, {{1000, gi, 0, 0, ""}}, {{1000, gi, 1, 490, ""}}}, []bool{false, true, true}},
	}
	for i, step := range steps {
		got, err := c.place(step.arriving)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("session %d: placed are %v, want %v", i, got, step.want)
		}
	}
}

func TestAGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	whole := task{1000, gi, 1, 1000, ""}
	c := newCluster(twoNodes, "Fragmentation")
	defer c.Close()
	got, err := c.place([][]task{{whole, whole, whole, whole}, {whole, whole, whole}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, true}; !slices.Equal(got, want) {
		t.Errorf("of gangs of four and of three on three GPUs, placed are %v, want %v", got, want)
	}
}

func TestTheAuditRefusesWhatNodesHaveNot(t *testing.T) {
	with := func(node, annotation string) *v1.Pod {
		return schedulertesting.MakePod().Name("p").Node(node).Annotation(schedulingv1alpha1.DeviceAllocatedAnnotation, annotation).Obj()
	}
	half := task{1000, gi, 1, 500, ""}
	cases := map[string]struct {
		task task
		pod  *v1.Pod
		want string
	}{
		"no such node":       {half, with("n9", `{"gpu":[{"minor":0}]}`), "no node"},
		"another model":      {task{1000, gi, 1, 500, "B"}, with(nodeName(0), `{"gpu":[{"minor":0}]}`), "which has A"},
		"too little CPU":     {task{17_000, gi, 1, 500, ""}, with(nodeName(0), `{"gpu":[{"minor":0}]}`), "CPU or memory"},
		"too few GPUs":       {task{1000, gi, 2, 1000, ""}, with(nodeName(0), `{"gpu":[{"minor":0}]}`), "want 2"},
		"a GPU twice":        {task{1000, gi, 2, 1000, ""}, with(nodeName(0), `{"gpu":[{"minor":0},{"minor":0}]}`), "want 2"},
		"no such GPU":        {half, with(nodeName(1), `{"gpu":[{"minor":1}]}`), "have left"},
		"GPUs in use":        {task{1000, gi, 1, 600, ""}, with(nodeName(1), `{"gpu":[{"minor":0}]}`), "have left [50]"},
		"no annotation":      {half, schedulertesting.MakePod().Name("p").Node(nodeName(0)).Obj(), "want 1"},
		"a wrong annotation": {half, with(nodeName(0), "gpu 0"), "has the devices"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAudit(twoNodes)
			if err := a.add(half, with(nodeName(1), `{"gpu":[{"minor":0}]}`)); err != nil {
				t.Fatal(err)
			}
			if err := a.add(tc.task, tc.pod); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestStrategiesOnASmallTrace(t *testing.T) {
	tr := synthetic(12, 1)
	for _, gangs := range []bool{false, true} {
		for _, strategy := range knownStrategies {
			got, err := run(tr, strategy, jobs(tr.arrivals(1), gangs, 1), 50)
			if err != nil {
				t.Fatal(err)
			}
			if last := got[len(got)-1]; last < 50 || last > 100 || !slices.IsSorted(got[:]) {
				t.Errorf("%s, gangs %t: %v are no figures of a run", strategy, gangs, got)
			}
		}
	}
}

func TestTheBarIsForTheFirstStrategy(t *testing.T) {
	outcomes := []outcome{{strategy: "Fragmentation", runs: []figures{{80, 90, 95.2, 96}, {80, 90, 95.3, 96}}}, {strategy: "LeastAllocated", runs: []figures{{}}}}
	for bar, wrong := range map[float64]bool{0: false, 95.25: false, 95.3: true} {
		if err := (&plan{bar: bar}).check(outcomes); (err != nil) != wrong {
			t.Errorf("with bar %v the error is %v", bar, err)
		}
	}
	var out bytes.Buffer
	report(&out, outcomes, true)
	for _, want := range []string{"| best fit (published) | 89.99 | 92.82 | 92.86 | 93.08 |", "| Fragmentation | 80.00 | 90.00 | 95.25 | 96.00 |", "95.20 95.30"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestWrongFlagsAreSaid(t *testing.T) {
	cases := map[string][]string{
		"none of Fragmentation, LeastAllocated": {"--strategies", "Random"},
		"must be 1 or more":                     {"--seeds", "0"},
		"needs --trace":                         {"--workload", "gpushare100"},
		"unexpected arguments":                  {"trace"},
		"no such file":                          {"--trace", "nowhere"},
	}
	for want, args := range cases {
		var told bytes.Buffer
		if _, err := parsePlan(args, &told); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", args, err, want)
		}
	}
}
