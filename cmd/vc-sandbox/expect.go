// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Metrics of the scheduler that show its first cycle and the end of a rollback.
const (
	cyclesMetric     = `volcano_scheduling_cycles_total{result="ok"}`
	rolledBackMetric = `volcano_bind_transaction_duration_seconds_count{result="rolled_back"}`
	inFlightMetric   = `volcano_bind_transactions_in_flight`
	rollbackMetric   = `volcano_prebind_rollback_total{plugin="bindpolicy",result="ok"}`
	// metricsPoll is how often the metrics are read.
	metricsPoll = 50 * time.Millisecond
)

// awaitBound waits until every member has a node, and returns the time since began.
func (s *story) awaitBound(ctx context.Context, began time.Time, g gang) (time.Duration, error) {
	return s.view.await(ctx, began, fmt.Sprintf("all %d pods of %s are bound", g.members, g.name), func() (bool, string) {
		_, bound := s.view.placed(g.labels())
		_, why := s.complaint(g)
		return len(bound) == g.members, fmt.Sprintf("%d are, and the PodGroup reports %q", len(bound), why)
	})
}

// awaitRefusal waits until the PodGroup reports a failed pre-bind step, and each pod reports that it was not scheduled.
func (s *story) awaitRefusal(ctx context.Context, began time.Time, g gang) (took time.Duration, why string, err error) {
	took, err = s.view.await(ctx, began, fmt.Sprintf("PodGroup %s and its pods report that pre-bind failed", g.name), func() (bool, string) {
		var reason string
		reason, why = s.complaint(g)
		pods, bound := s.view.placed(g.labels())
		unscheduled := 0
		for _, pod := range pods {
			if unschedulable(pod) != "" {
				unscheduled++
			}
		}
		return reason == preBindFailed && unscheduled == g.members,
			fmt.Sprintf("%d pods are bound, %d report why not, and the PodGroup reports %q", len(bound), unscheduled, why)
	})
	return took, why, err
}

// awaitPending waits until the PodGroup reports why no member is bound.
func (s *story) awaitPending(ctx context.Context, began time.Time, g gang) (took time.Duration, why string, err error) {
	took, err = s.view.await(ctx, began, fmt.Sprintf("PodGroup %s reports why it waits", g.name), func() (bool, string) {
		_, why = s.complaint(g)
		_, bound := s.view.placed(g.labels())
		return why != "" && len(bound) == 0, fmt.Sprintf("%d pods are bound, and it reports %q", len(bound), why)
	})
	return took, why, err
}

// checkRefusal checks that the PodGroup's message about a failed pre-bind step names the plugin, pod, node and error.
func checkRefusal(why string, g gang, node string) error {
	return checkNames(why, g, map[string]string{
		"plugin": "plugin bindpolicy",
		"pod":    "pod " + namespace + "/" + g.name + "-",
		"node":   "node " + node,
		"error":  "xid-79",
	})
}

// checkNames checks that the PodGroup's message, why, contains each of the texts in names.
func checkNames(why string, g gang, names map[string]string) error {
	for what, text := range names {
		if !strings.Contains(why, text) {
			return fmt.Errorf("PodGroup %s does not name the %s (%q) in %q", g.name, what, text, why)
		}
	}
	return nil
}

// awaitFirstCycle waits until the scheduler has run a cycle. The health check succeeds earlier, while the scheduler
// still waits for its informers and for the root queue.
func (s *story) awaitFirstCycle(ctx context.Context) error {
	return s.awaitMetrics(ctx, "the scheduler runs a cycle", func(text []byte) (bool, string) {
		return metric(text, cyclesMetric) > 0, "its metrics report none"
	})
}

// awaitRollback waits until the scheduler's metrics show a transaction that was rolled back, and no transaction in
// flight. It returns how many pre-bind steps were rolled back.
func (s *story) awaitRollback(ctx context.Context) (steps int, err error) {
	err = s.awaitMetrics(ctx, "a transaction is rolled back", func(text []byte) (bool, string) {
		transactions, inFlight := metric(text, rolledBackMetric), metric(text, inFlightMetric)
		steps = int(metric(text, rollbackMetric))
		return transactions > 0 && inFlight == 0 && steps > 0,
			fmt.Sprintf("the scheduler's metrics report %v, with %d steps, and %v in flight", transactions, steps, inFlight)
	})
	return steps, err
}

// awaitMetrics reads the scheduler's metrics until condition returns true. stand is the current state of the metrics in
// words, for the error after a timeout.
func (s *story) awaitMetrics(ctx context.Context, what string, condition func(text []byte) (holds bool, stand string)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	tick := time.NewTicker(metricsPoll)
	defer tick.Stop()
	for {
		text, err := s.sandbox.scheduler.Metrics(ctx)
		if err != nil {
			return fmt.Errorf("reading the scheduler's metrics: %w", err)
		}
		holds, stand := condition(text)
		if holds {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("timed out after %s, waiting until %s; %s", stepTimeout, what, stand)
		}
	}
}

// metric returns the value of the named sample in a text in Prometheus' format; 0 if the sample does not exist.
func metric(text []byte, name string) float64 {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return number
			}
		}
	}
	return 0
}
