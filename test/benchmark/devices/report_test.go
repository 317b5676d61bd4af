// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	gang := work{gangs: 1, gangSize: 512}
	points := []jointPoint{
		{Nodes: 2500, Use: "all free", FirstSeconds: 0.2, Seconds: 0.06, CPUSeconds: 0.05, AgainSeconds: 0.005},
		{Nodes: jointNodes, Use: "all free", FirstSeconds: 0.4, Seconds: 0.06, CPUSeconds: 0.01, AgainSeconds: 0.01},
		{Nodes: jointNodes, Use: "in use", FirstSeconds: 0.4, Seconds: 0.08, CPUSeconds: 0.06, AgainSeconds: 0.01},
	}
	comparisons := []comparison{
		{row{name: "gang", work: gang, ratio: 20}, &result{Seconds: 4, CPUSeconds: 5, OpenSeconds: 1, Allocations: 3e7, Placed: 512}, &result{Seconds: 0.1, CPUSeconds: 0.2, OpenSeconds: 0.5, Allocations: 1e6, Placed: 512}},
		{row{name: "slow", work: gang, ratio: 20}, &result{Seconds: 1, Placed: 512}, &result{Seconds: 0.1, Placed: 512}},
		{row{name: "alone", work: gang, limit: time.Second}, nil, &result{Seconds: 0.512, Placed: 512}},
		{row{name: "late", work: gang, limit: time.Second}, nil, &result{Seconds: 1.024, Placed: 512}},
		{row{name: "some", work: gang, ratio: 20}, nil, &result{Seconds: 0.1, Placed: 100}},
	}
	var out strings.Builder
	err := report(&out, points, comparisons)
	wantErrors := []string{
		"joint5000, in use: the bar of 50 ms was missed", "slow: the bar of 20x was missed", "late: the bar of 1 s was missed", "some: ours placed 100 of 512 pods",
	}
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(wantErrors, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	var got []string
	for text := range strings.Lines(out.String()) {
		if fields := strings.Join(strings.Fields(text), " "); fields != "" {
			got = append(got, fields)
		}
	}
	want := []string{
		"joint5000 the first request one unlike all before a node its CPU bar once more use of devices",
		"2500 nodes 200 ms 60 ms 24 us 50 ms 5 ms all free",
		"5000 nodes 400 ms 60 ms 12 us 10 ms 50 ms met 10 ms all free",
		"5000 nodes 400 ms 80 ms 16 us 60 ms 50 ms MISSED 10 ms in use",
		"action upstream ours ratio bar ours a pod CPU placed allocations open session",
		"upstream ours upstream ours upstream ours upstream ours",
		"gang 4 s 100 ms 40x 20x met 195 us 5 s 200 ms 512 512 30 M 1 M 1 s 500 ms",
		"slow 1 s 100 ms 10x 20x MISSED 195 us 0 us 0 us 512 512 0 M 0 M 0 us 0 us",
		"alone - 512 ms - 1 s met 1 ms - 0 us - 512 - 0 M - 0 us",
		"late - 1.02 s - 1 s MISSED 2 ms - 0 us - 512 - 0 M - 0 us",
		"some - 100 ms - 20x 1 ms - 0 us - 100 - 0 M - 0 us",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
