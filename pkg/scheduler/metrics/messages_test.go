// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// helps is a registerer that records the help text of each metric, by name.
type helps map[string]string

func (h helps) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for description := range descriptions {
		var name, help string
		if _, err := fmt.Sscanf(description.String(), "Desc{fqName: %q, help: %q,", &name, &help); err != nil {
			return fmt.Errorf("%s: %w", description, err)
		}
		h[name] = help
	}
	return nil
}

func (h helps) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := h.Register(c); err != nil {
			panic(err)
		}
	}
}

func (h helps) Unregister(prometheus.Collector) bool { return false }

// TestMessages compares the help text of each metric.
func TestMessages(t *testing.T) {
	got := helps{}
	New(got)
	want := helps{
		"volcano_bind_transaction_duration_seconds":  "Duration of a bind transaction, by result: bound, partial (some members are bound, others were released), rolled_back.",
		"volcano_bind_transactions_in_flight":        "Number of bind transactions in flight.",
		"volcano_events_total":                       "Number of events, by result: written, rejected (by the API server), dropped (too many at once, or the API server was unavailable).",
		"volcano_gang_evicted_pods_total":            "Number of pods that actions preempt and reclaim evicted, by action.",
		"volcano_gang_evicted_work_seconds_total":    "Work that these pods lost, by action: for each pod, the seconds since it started or its gang saved its work.",
		"volcano_gang_eviction_put_back_pods_total":  "Number of pods that actions preempt and reclaim had chosen to evict for a gang, and then found not to be needed, by action.",
		"volcano_gang_eviction_try_duration_seconds": "Time of a try of actions preempt and reclaim to make room for a gang or gang group, by action and result.",
		"volcano_gang_eviction_tries_total":          "Number of tries of actions preempt and reclaim to make room for a gang or gang group, by action and result: evicted, not_needed (it fits without evictions), refused.",
		"volcano_gang_groups_in_flight":              "Number of gang groups with a bind transaction in flight.",
		"volcano_gang_node_reservations":             "Number of gangs with a node reservation.",
		"volcano_gang_node_reservations_ended_total": "Number of node reservations that ended, by end (placed, below_minimum, expired, gang_deleted, nodes_lost, not_admitted, disabled).",
		"volcano_gang_timeouts_total":                "Number of times a gang returned to Pending because it was not scheduled within its waiting time. Each gang of a group counts.",
		"volcano_gang_waiting_seconds":               "Time that a gang waited for a reason, observed when the wait ends: its minimum is bound, or its waiting time has passed (bound, timed_out). A gang is observed once for each of its reasons.",
		"volcano_gangs":                              "Number of gangs, by state (waiting, admitted, timed_out, in_flight, partial, bound, running, ended).",
		"volcano_nodegroup_trials_total":             "Number of trial placements of a gang in a node group, by result: ready, waiting (for resources that are being released), infeasible.",
		"volcano_prebind_duration_seconds":           "Duration of one pre-bind step of a plugin for one task, by plugin and result (ok, error).",
		"volcano_prebind_rollback_stuck_total":       "Number of tasks whose rollback kept failing, or could not begin because the step had not returned, for more than a minute, by plugin.",
		"volcano_prebind_rollback_total":             "Number of attempts to roll back a pre-bind step, by plugin and result (ok, error).",
		"volcano_quarantined_objects":                "Number of objects left out of scheduling because they are invalid, too large, or make cycles panic, by kind (PodGroup, Queue, Node).",
		"volcano_scheduler_conf_reloads_total":       "Number of reloads of the scheduler's configuration file, by result (ok, error). After an error the current configuration stays in force.",
		"volcano_scheduling_cycles_total":            "Number of scheduling cycles, by result: ok, panic, or idle (skipped, because nothing had changed and nothing was waiting).",
		"volcano_status_rejected_total":              "Number of status writes that the API server rejected permanently, by kind (pod, podgroup, queue).",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("help (-want +got):\n%s", diff)
	}
}
