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

// The scheduler's metrics that tell of the end of a rollback.
const (
	rolledBackMetric = `volcano_bind_transaction_duration_seconds_count{result="rolled_back"}`
	inFlightMetric   = `volcano_bind_transactions_in_flight`
	rollbackMetric   = `volcano_prebind_rollback_total{plugin="bindpolicy",result="ok"}`
	// metricsPoll is how often they are read.
	metricsPoll = 50 * time.Millisecond
)

// awaitBound waits until every member has a node, and says how long that took since began.
func (s *story) awaitBound(ctx context.Context, began time.Time, g gang) (time.Duration, error) {
	return s.view.await(ctx, began, fmt.Sprintf("all %d pods of %s are bound", g.members, g.name), func() (bool, string) {
		_, bound := s.view.placed(g.labels())
		_, why := s.complaint(g)
		return len(bound) == g.members, fmt.Sprintf("%d are, and the PodGroup says %q", len(bound), why)
	})
}

// awaitRefusal waits until the PodGroup says that its pre-bind failed and each pod that it was not scheduled.
func (s *story) awaitRefusal(ctx context.Context, began time.Time, g gang) (took time.Duration, why string, err error) {
	took, err = s.view.await(ctx, began, fmt.Sprintf("PodGroup %s and its pods say that pre-bind failed", g.name), func() (bool, string) {
		var reason string
		reason, why = s.complaint(g)
		pods, bound := s.view.placed(g.labels())
		told := 0
		for _, pod := range pods {
			if unschedulable(pod) != "" {
				told++
			}
		}
		return reason == preBindFailed && told == g.members,
			fmt.Sprintf("%d pods are bound, %d say why not, and the PodGroup says %q", len(bound), told, why)
	})
	return took, why, err
}

// awaitPending waits until the PodGroup says why nobody is bound.
func (s *story) awaitPending(ctx context.Context, began time.Time, g gang) (took time.Duration, why string, err error) {
	took, err = s.view.await(ctx, began, fmt.Sprintf("PodGroup %s says why it waits", g.name), func() (bool, string) {
		_, why = s.complaint(g)
		_, bound := s.view.placed(g.labels())
		return why != "" && len(bound) == 0, fmt.Sprintf("%d pods are bound, and it says %q", len(bound), why)
	})
	return took, why, err
}

// checkRefusal looks for all that a PodGroup must say of a failed pre-bind: plugin, pod, node and error.
func checkRefusal(why string, g gang, node string) error {
	for what, text := range map[string]string{
		"plugin": "plugin bindpolicy",
		"pod":    "pod " + namespace + "/" + g.name + "-",
		"node":   "node " + node,
		"error":  "xid-79",
	} {
		if !strings.Contains(why, text) {
			return fmt.Errorf("PodGroup %s does not name the %s (%q) in %q", g.name, what, text, why)
		}
	}
	return nil
}

// awaitRollback waits until the scheduler's metrics tell of a rolled back transaction and of none in flight, and
// returns how many pre-bind steps were rolled back.
func (s *story) awaitRollback(ctx context.Context) (steps int, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	tick := time.NewTicker(metricsPoll)
	defer tick.Stop()
	for {
		text, err := s.scheduler.Metrics(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading the scheduler's metrics: %w", err)
		}
		transactions, inFlight := metric(text, rolledBackMetric), metric(text, inFlightMetric)
		if steps := metric(text, rollbackMetric); transactions > 0 && inFlight == 0 && steps > 0 {
			return int(steps), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("within %s the scheduler's metrics told of no rollback: %v transactions rolled back, %v in flight",
				stepTimeout, transactions, inFlight)
		}
	}
}

// metric is a sample's value in the Prometheus text format, zero when it is not there.
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
