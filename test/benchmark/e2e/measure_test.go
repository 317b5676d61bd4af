// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCountWrites(t *testing.T) {
	const log = `{"verb":"create","objectRef":{"resource":"pods","subresource":"binding","name":"a"},"responseStatus":{"metadata":{},"code":201}}
{"verb":"create","objectRef":{"resource":"pods","subresource":"binding","name":"b"},"responseStatus":{"status":"Failure","reason":"Conflict","code":409}}
{"verb":"create","objectRef":{"resource":"events","name":"a.1"},"responseStatus":{"metadata":{},"code":201}}

{"verb":"update","objectRef":{"resource":"podgroups","name":"g","apiGroup":"scheduling.volcano.sh"},"responseStatus":{"metadata":{},"code":200}}
`
	got, err := countWrites(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := writeCount{
		kinds:   map[string]int{"create pods/binding": 1, "create events": 1, "update podgroups": 1},
		refused: map[string]int{"create pods/binding": 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(writeCount{})); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestMachineSeconds(t *testing.T) {
	// user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
	got, err := machineSeconds([]byte("cpu  1000 100 300 99999 7777 20 30 50 888 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := 15.0; got != want {
		t.Errorf("got %v s, want %v s", got, want)
	}
	if _, err := machineSeconds([]byte("intr 1 2 3\n")); err == nil {
		t.Error("no error for a line that is not the cpu's")
	}
}

func TestQuantile(t *testing.T) {
	tests := map[string]struct {
		values []int
		q      float64
		want   int
	}{
		"the median of an odd number":     {[]int{3, 1, 2}, 0.5, 2},
		"the lower median of an even one": {[]int{4, 1, 3, 2}, 0.5, 2},
		"the highest":                     {[]int{5, 9, 7}, 1, 9},
		"p99 of few is the highest":       {[]int{5, 9, 7}, 0.99, 9},
		"nothing":                         {nil, 0.5, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.values, tc.q); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	results := []result{
		{trialKey: trialKey{upstream, pglast, full, 1}, PodsPerSecond: 100, SchedulerCPUSeconds: 50, OthersCPUSeconds: othersCPU{Foreign: 3},
			WritesPerPod: map[string]float64{"create pods/binding": 1, "update pods/status": 1, "create events": 2}},
		{trialKey: trialKey{ours, pglast, full, 1}, PodsPerSecond: 110, SchedulerCPUSeconds: 40,
			WritesPerPod: map[string]float64{"create pods/binding": 1, "create events": 1}},
		{trialKey: trialKey{ours, pglast, full, 2}, PodsPerSecond: 130, SchedulerCPUSeconds: 50,
			WritesPerPod: map[string]float64{"create pods/binding": 1, "create events": 1}},
	}
	var out strings.Builder
	const missed = "pglast: 1.2 pods/s of upstream's, want at least 5\npglast: 0.9 CPU of upstream's, want at most 0.125"
	if err := report(&out, &plan{}, results); err == nil || err.Error() != missed {
		t.Errorf("got error %v, want %s", err, missed)
	}
	var got [][]string
	for line := range strings.Lines(out.String()) {
		if cells := strings.Fields(line); len(cells) > 0 && (cells[0] == "!" || cells[0] == pglast || strings.HasPrefix(cells[0], "ours/")) {
			got = append(got, cells)
		}
	}
	want := [][]string{
		strings.Fields("! upstream pglast full #1: others used 3.0 CPU seconds of this machine meanwhile; do not trust it"),
		// pods/s, the gang latencies that were not measured, CPU, memory that was not measured, writes, events, lone
		// gangs.
		strings.Fields("ours/upstream pglast full 1.20 - - 0.90 - 0.50 0.50 -"),
		strings.Fields("pglast 1.2 pods/s of upstream's at least 5 MISSED"),
		strings.Fields("pglast 0.9 CPU of upstream's at most 0.125 MISSED"),
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("report (-want +got):\n%s\n%s", diff, out.String())
	}
}
