// SPDX-License-Identifier: Apache-2.0

// Package metrics holds this project's metrics, which stand beside upstream's under the same prefix.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Metrics are the scheduler's own metrics. It is the binding engine's observer.
type Metrics struct {
	preBind     *prometheus.HistogramVec
	rollbacks   *prometheus.CounterVec
	stuck       *prometheus.CounterVec
	transaction *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	reloads     *prometheus.CounterVec
	cycles      *prometheus.CounterVec
	trials      *prometheus.CounterVec
	refused     *prometheus.CounterVec
	events      *prometheus.CounterVec
	aside       *prometheus.GaugeVec
	gangMetrics
}

var (
	_ binding.Observer          = (*Metrics)(nil)
	_ framework.GangObserver    = (*Metrics)(nil)
	_ gangs.ReservationObserver = (*Metrics)(nil)
)

// New registers the metrics.
func New(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 20) // 0.5 ms to 262 s
	return &Metrics{
		gangMetrics: newGangs(registry),
		preBind: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volcano_prebind_duration_seconds", Buckets: buckets,
			Help: "Duration of a plugin's pre-bind step for one task, by plugin and result (ok, error).",
		}, []string{"plugin", "result"}),
		rollbacks: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_prebind_rollback_total",
			Help: "Rollbacks of pre-bind steps that were tried, by plugin and result (ok, error).",
		}, []string{"plugin", "result"}),
		stuck: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_prebind_rollback_stuck_total",
			Help: "Tasks whose rollback kept failing, or whose step did not return so that it could begin, for so long that it was reported, by plugin.",
		}, []string{"plugin"}),
		transaction: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volcano_bind_transaction_duration_seconds", Buckets: buckets,
			Help: "Duration of a gang's bind transaction, by result: bound, partial (at or above the minimum, some members released), rolled_back.",
		}, []string{"result"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "volcano_bind_transactions_in_flight",
			Help: "Bind transactions that have not ended.",
		}),
		reloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_scheduler_conf_reloads_total",
			Help: "Changes of the scheduler's configuration file that were read, by result (ok, error). After an error the former configuration stays in force.",
		}, []string{"result"}),
		cycles: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_scheduling_cycles_total",
			Help: "Scheduling cycles, by result: ok, panic, or idle for a period in which nothing had changed and nothing was waiting.",
		}, []string{"result"}),
		aside: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "volcano_set_aside_objects",
			Help: "Objects that scheduling does without because of numbers that cannot be reckoned with or of a panic, by kind (PodGroup, Queue, Node).",
		}, []string{"kind"}),
		trials: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_nodegroup_trials_total",
			Help: "Trial placements of gangs in node groups, by result: ready, waiting for resources that are being released, misfit.",
		}, []string{"result"}),
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_status_refused_total",
			Help: "Status writes that the API server refused for good and that were dropped, by kind (pod, podgroup, queue).",
		}, []string{"kind"}),
		events: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_events_total",
			Help: "Events that were told, by result: written, refused by the API server, or lost because there were too many. What was lost is told again when a cycle finds it again.",
		}, []string{"result"}),
	}
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// StepDone observes one run of a plugin's pre-bind step.
func (m *Metrics) StepDone(plugin string, err error, took time.Duration) {
	m.preBind.WithLabelValues(plugin, result(err)).Observe(took.Seconds())
}

// RollbackDone counts one try to undo a step.
func (m *Metrics) RollbackDone(plugin string, err error) {
	m.rollbacks.WithLabelValues(plugin, result(err)).Inc()
}

// Delayed counts a task whose rollback keeps failing, or cannot begin.
func (m *Metrics) Delayed(_ *binding.Member, d binding.Delay) {
	if d.Kind == binding.StepNotReturning || d.Kind == binding.RollbackStuck {
		m.stuck.WithLabelValues(d.Plugin).Inc()
	}
}

// DelayEnded counts nothing.
func (*Metrics) DelayEnded(*binding.Member, error) {}

// TransactionDone observes a transaction that ended.
func (m *Metrics) TransactionDone(r binding.Result) {
	how := "bound"
	switch {
	case len(r.Bound) == 0:
		how = "rolled_back"
	case len(r.Failed) > 0:
		how = "partial"
	}
	m.transaction.WithLabelValues(how).Observe(r.Took.Seconds())
}

// InFlight sets how many transactions have not ended.
func (m *Metrics) InFlight(transactions int) { m.inFlight.Set(float64(transactions)) }

// ConfReloaded counts a configuration that was read at run time.
func (m *Metrics) ConfReloaded(err error) { m.reloads.WithLabelValues(result(err)).Inc() }

// Cycle counts a scheduling cycle.
func (m *Metrics) Cycle(result string) { m.cycles.WithLabelValues(result).Inc() }

// SetAside sets how many objects sessions do without, by kind.
func (m *Metrics) SetAside(counts map[string]int) {
	for kind, count := range counts {
		m.aside.WithLabelValues(kind).Set(float64(count))
	}
}

// NodeGroupTrial counts a trial placement of a gang in a node group.
func (m *Metrics) NodeGroupTrial(result string) { m.trials.WithLabelValues(result).Inc() }

// StatusRefused counts a status that was dropped.
func (m *Metrics) StatusRefused(kind string) { m.refused.WithLabelValues(kind).Inc() }

// EventDone counts an event.
func (m *Metrics) EventDone(result string) { m.events.WithLabelValues(result).Inc() }
