// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// values gathers the registry: counters and gauges by value, histograms by the number of observations.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
			}
			switch {
			case metric.GetHistogram() != nil:
				values[name] = float64(metric.GetHistogram().GetSampleCount())
			case metric.GetCounter() != nil:
				values[name] = metric.GetCounter().GetValue()
			default:
				values[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestMetricsCountResults(t *testing.T) {
	failure := errors.New("it is broken")
	one, failed := []*binding.Member{{}}, []binding.Failure{{}}
	tests := map[string]struct {
		happens func(m *Metrics)
		want    map[string]float64
	}{
		"evictions": {func(m *Metrics) {
			m.Evictions.Try("preempt", "evicted", time.Second)
			m.Evictions.Evicted("preempt", 3, 2, time.Minute)
			m.Evictions.Try("preempt", "refused", time.Second)
			m.Evictions.Try("reclaim", "evicted", time.Second)
			m.Evictions.Evicted("reclaim", 1, 0, time.Second)
		}, map[string]float64{
			"volcano_gang_eviction_tries_total action=preempt result=evicted":          1,
			"volcano_gang_eviction_tries_total action=preempt result=refused":          1,
			"volcano_gang_eviction_tries_total action=reclaim result=evicted":          1,
			"volcano_gang_evicted_pods_total action=preempt":                           3,
			"volcano_gang_evicted_pods_total action=reclaim":                           1,
			"volcano_gang_evicted_work_seconds_total action=preempt":                   60,
			"volcano_gang_eviction_put_back_pods_total action=preempt":                 2,
			"volcano_gang_eviction_put_back_pods_total action=reclaim":                 0,
			"volcano_gang_eviction_try_duration_seconds action=preempt result=evicted": 1,
			"volcano_gang_eviction_try_duration_seconds action=preempt result=refused": 1,
			"volcano_gang_eviction_try_duration_seconds action=reclaim result=evicted": 1,
			"volcano_gang_evicted_work_seconds_total action=reclaim":                   1,
		}},
		"steps": {func(m *Metrics) {
			m.StepDone("p", nil, time.Second)
			m.StepDone("p", failure, time.Second)
			m.StepDone("p", failure, time.Second)
		}, map[string]float64{
			"volcano_prebind_duration_seconds plugin=p result=ok":    1,
			"volcano_prebind_duration_seconds plugin=p result=error": 2,
		}},
		"rollbacks": {func(m *Metrics) {
			m.RollbackDone("p", failure)
			m.RollbackDone("p", nil)
			m.Delayed(nil, binding.Delay{Kind: binding.RollbackStuck, Plugin: "p"})
			m.Delayed(nil, binding.Delay{Kind: binding.RollbackStuck, Plugin: "p", Again: true})
			m.Delayed(nil, binding.Delay{Kind: binding.StepWaits, Plugin: "p"})
		}, map[string]float64{
			"volcano_prebind_rollback_total plugin=p result=ok":    1,
			"volcano_prebind_rollback_total plugin=p result=error": 1,
			"volcano_prebind_rollback_stuck_total plugin=p":        1,
		}},
		"transactions": {func(m *Metrics) {
			m.InFlight(3)
			m.TransactionDone(binding.Result{Bound: one})
			m.TransactionDone(binding.Result{Bound: one, Failed: failed})
			m.TransactionDone(binding.Result{Failed: failed})
			m.InFlight(2)
		}, map[string]float64{
			"volcano_bind_transactions_in_flight":                          2,
			"volcano_bind_transaction_duration_seconds result=bound":       1,
			"volcano_bind_transaction_duration_seconds result=partial":     1,
			"volcano_bind_transaction_duration_seconds result=rolled_back": 1,
		}},
		"reloads and cycles": {func(m *Metrics) {
			m.ConfReloaded(nil)
			m.ConfReloaded(failure)
			m.Cycle("idle")
		}, map[string]float64{
			"volcano_scheduler_conf_reloads_total result=ok":    1,
			"volcano_scheduler_conf_reloads_total result=error": 1,
			"volcano_scheduling_cycles_total result=idle":       1,
		}},
		"gangs": {func(m *Metrics) {
			m.GangWaited(framework.PendingResources, report.EndBound, time.Minute)
			m.GangWaited(framework.PendingGroup, report.EndTimedOut, time.Minute)
			m.GangTimedOut()
			m.Reservations(2)
			m.Reservations(1)
			m.ReservationEnded(gangs.ReservationExpired)
			waiting := 3
			m.CountGangs(func() GangCounts { return GangCounts{map[string]int{"waiting": 9}, 9} })
			m.CountGangs(func() GangCounts { return GangCounts{map[string]int{"waiting": waiting, "bound": 0}, 1} })
			waiting = 2 // They are counted when the metrics are gathered.
		}, map[string]float64{
			"volcano_gang_waiting_seconds end=bound reason=resources": 1,
			"volcano_gang_waiting_seconds end=timed_out reason=group": 1,
			"volcano_gang_timeouts_total":                             1,
			"volcano_gang_node_reservations":                          1,
			"volcano_gang_node_reservations_ended_total end=expired":  1,
			"volcano_gangs state=waiting":                             2,
			"volcano_gangs state=bound":                               0,
			"volcano_gang_groups_in_flight":                           1,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			tt.happens(New(registry))
			want := map[string]float64{"volcano_bind_transactions_in_flight": 0, "volcano_gang_timeouts_total": 0, "volcano_gang_node_reservations": 0}
			for _, end := range gangs.ReservationEnds {
				want["volcano_gang_node_reservations_ended_total end="+string(end)] = 0
			}
			maps.Copy(want, tt.want)
			if diff := cmp.Diff(want, values(t, registry)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}
