// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// level is the resource usage of a process at a quiet point.
type level struct {
	process    string
	at         time.Duration
	goroutines float64
	// heap is the memory in bytes that was reachable after the last garbage collection, and resident the resident
	// memory of the process.
	heap, resident float64
	cycles         float64
}

// The increases from the first quiet points to the end of a chapter above which a leak is reported. Gangs are created
// and deleted at random, and so the number of calls in flight varies.
const (
	moreGoroutines = 100
	moreHeap       = 32 << 20
	// firstLevels is the number of quiet points whose maximum is the starting level.
	firstLevels = 3
)

// takeLevels records the current usage of each scheduler.
func (s *soak) takeLevels(ctx context.Context) {
	for _, r := range s.replicas {
		process := r.running()
		if process == nil {
			continue
		}
		l, err := levelOf(ctx, process)
		if err != nil {
			s.say("reading the metrics of %s: %v", process.Name(), err)
			continue
		}
		if l.cycles == 0 {
			continue // It is a standby, and will use more once it leads.
		}
		l.at = time.Since(s.began)
		s.levels[process.PID()] = append(s.levels[process.PID()], l)
	}
}

func levelOf(ctx context.Context, process *controlplane.Scheduler) (level, error) {
	text, err := process.Metrics(ctx)
	if err != nil {
		return level{}, err
	}
	l := level{process: process.Name(), resident: float64(process.RSS())}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		name, value, ok := strings.Cut(scanner.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			l.goroutines = number
		case "go_memstats_heap_alloc_bytes":
			l.heap = number
		case `volcano_scheduling_cycles_total{result="ok"}`:
			l.cycles = number
		}
	}
	return l, scanner.Err()
}

// endOfChapter compares the usage of the processes with that at the start.
func (s *soak) endOfChapter() {
	for _, pid := range slices.Sorted(maps.Keys(s.levels)) {
		all := s.levels[pid]
		if len(all) <= 2*firstLevels {
			continue
		}
		first, last := most(all[:firstLevels]), least(all[len(all)-firstLevels:])
		s.say("%s over %s: goroutines %.0f to %.0f, heap %.1f to %.1f MB, resident %.0f to %.0f MB, %.0f cycles", all[0].process,
			(all[len(all)-1].at - all[0].at).Round(time.Second), first.goroutines, last.goroutines, first.heap/1e6, last.heap/1e6,
			all[0].resident/1e6, all[len(all)-1].resident/1e6, all[len(all)-1].cycles)
		if last.goroutines > first.goroutines+moreGoroutines {
			s.violate("%s has %.0f goroutines, and had %.0f", all[0].process, last.goroutines, first.goroutines)
		}
		if last.heap > first.heap+moreHeap {
			s.violate("%s has a heap of %.0f MB, and had one of %.0f", all[0].process, last.heap/1e6, first.heap/1e6)
		}
	}
	clear(s.levels)
}

func most(levels []level) (l level) {
	for _, other := range levels {
		l.goroutines, l.heap = max(l.goroutines, other.goroutines), max(l.heap, other.heap)
	}
	return l
}

func least(levels []level) level {
	l := levels[0]
	for _, other := range levels[1:] {
		l.goroutines, l.heap = min(l.goroutines, other.goroutines), min(l.heap, other.heap)
	}
	return l
}

// report prints the numbers of gangs and faults.
func (s *soak) report() {
	s.say("%d gangs were submitted and %d removed; faults:", s.fleet.submitted, s.fleet.retired)
	for _, name := range slices.Sorted(maps.Keys(s.upset)) {
		fmt.Fprintf(s.out, "  %4d  %s\n", s.upset[name], name)
	}
}

// evictions are the evictions of a run, as events say: for how many gangs pods were evicted, and how many.
type evictions struct{ gangs, pods int }

// countEvictions returns the evictions. It is an error if more pods were evicted for a gang at once than it has members,
// because each pod requests as much as a member. sizes has the number of members of each gang.
func countEvictions(ctx context.Context, kube kubernetes.Interface, sizes map[string]int) (evictions, error) {
	list, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=PodsEvicted"})
	if err != nil {
		return evictions{}, err
	}
	gangs, total := map[string]bool{}, 0
	for i := range list.Items {
		event := &list.Items[i]
		action, pods := "", 0
		if _, err := fmt.Sscanf(event.Message, "action %s evicts %d", &action, &pods); err != nil {
			return evictions{}, fmt.Errorf("event %q does not say how many pods were evicted: %w", event.Message, err)
		}
		if size := sizes[event.InvolvedObject.Name]; pods > size {
			return evictions{}, fmt.Errorf("%s %s, which has %d members", event.Message, event.InvolvedObject.Name, size)
		}
		gangs[event.InvolvedObject.Name] = true
		total += pods * max(int(event.Count), 1)
	}
	return evictions{len(gangs), total}, nil
}
