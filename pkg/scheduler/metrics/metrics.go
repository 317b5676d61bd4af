// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// Metrics are the scheduler's own metrics. They cover bind transactions, gangs and node reservations.
type Metrics struct {
	gangMetrics
	Evictions   *Evictions
	preBind     *prometheus.HistogramVec
	rollbacks   *prometheus.CounterVec
	stuck       *prometheus.CounterVec
	transaction *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	reloads     *prometheus.CounterVec
	cycles      *prometheus.CounterVec
	trials      *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	events      *prometheus.CounterVec
	quarantined *prometheus.GaugeVec
}

var (
	_ binding.Observer    = (*Metrics)(nil)
	_ report.GangObserver = (*Metrics)(nil)
)

// New registers the metrics with the registry and returns them.
func New(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 20) // 0.5 ms to 262 s
	return &Metrics{
		gangMetrics: newGangs(registry),
		Evictions:   newEvictions(factory),
		preBind: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volcano_prebind_duration_seconds", Buckets: buckets,
			Help: "Duration of one pre-bind step of a plugin for one task, by plugin and result (ok, error).",
		}, []string{"plugin", "result"}),
		rollbacks: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_prebind_rollback_total",
			Help: "Number of attempts to roll back a pre-bind step, by plugin and result (ok, error).",
		}, []string{"plugin", "result"}),
		stuck: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_prebind_rollback_stuck_total",
			Help: "Number of tasks whose rollback kept failing, or could not begin because the step had not returned, for more than a minute, by plugin.",
		}, []string{"plugin"}),
		transaction: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volcano_bind_transaction_duration_seconds", Buckets: buckets,
			Help: "Duration of a bind transaction, by result: bound, partial (some members are bound, others were released), rolled_back.",
		}, []string{"result"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "volcano_bind_transactions_in_flight",
			Help: "Number of bind transactions in flight.",
		}),
		reloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_scheduler_conf_reloads_total",
			Help: "Number of reloads of the scheduler's configuration file, by result (ok, error). After an error the current configuration stays in force.",
		}, []string{"result"}),
		cycles: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_scheduling_cycles_total",
			Help: "Number of scheduling cycles, by result: ok, panic, or idle (skipped, because nothing had changed and nothing was waiting).",
		}, []string{"result"}),
		quarantined: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "volcano_quarantined_objects",
			Help: "Number of objects left out of scheduling because they are invalid, too large, or make cycles panic, by kind (PodGroup, Queue, Node).",
		}, []string{"kind"}),
		trials: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_nodegroup_trials_total",
			Help: "Number of trial placements of a gang in a node group, by result: ready, waiting (for resources that are being released), infeasible.",
		}, []string{"result"}),
		rejected: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_status_rejected_total",
			Help: "Number of status writes that the API server rejected permanently, by kind (pod, podgroup, queue).",
		}, []string{"kind"}),
		events: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_events_total",
			Help: "Number of events, by result: written, rejected (by the API server), dropped (too many at once, or the API server was unavailable).",
		}, []string{"result"}),
	}
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// StepDone records the result and duration of one run of a plugin's pre-bind step.
func (m *Metrics) StepDone(plugin string, err error, took time.Duration) {
	m.preBind.WithLabelValues(plugin, result(err)).Observe(took.Seconds())
}

// RollbackDone counts one attempt to undo a step.
func (m *Metrics) RollbackDone(plugin string, err error) {
	m.rollbacks.WithLabelValues(plugin, result(err)).Inc()
}

// Delayed counts a task whose rollback keeps failing or does not return, or cannot begin because a step has not returned.
func (m *Metrics) Delayed(_ *binding.Member, d binding.Delay) {
	if !d.Again && (d.Kind == binding.PreBindTimedOut || d.Kind == binding.RollbackStuck) {
		m.stuck.WithLabelValues(d.Plugin).Inc()
	}
}

// DelayEnded implements binding.Observer. It does nothing, because no metric counts the ends of members' long waits.
func (*Metrics) DelayEnded(*binding.Member, error) {}

// TransactionDone records the result and duration of a bind transaction that has ended.
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

// InFlight sets the number of transactions that have not ended.
func (m *Metrics) InFlight(transactions int) { m.inFlight.Set(float64(transactions)) }

// ConfReloaded counts a reload of the configuration at run time.
func (m *Metrics) ConfReloaded(err error) { m.reloads.WithLabelValues(result(err)).Inc() }

// Cycle counts a scheduling cycle.
func (m *Metrics) Cycle(result string) { m.cycles.WithLabelValues(result).Inc() }

// SetQuarantined sets the number of quarantined objects, by kind.
func (m *Metrics) SetQuarantined(counts map[string]int) {
	for kind, count := range counts {
		m.quarantined.WithLabelValues(kind).Set(float64(count))
	}
}

// NodeGroupTrial counts a trial placement of a gang in a node group.
func (m *Metrics) NodeGroupTrial(result string) { m.trials.WithLabelValues(result).Inc() }

// StatusRejected counts a status that the API server rejected permanently, by the kind of its
// object.
func (m *Metrics) StatusRejected(kind string) { m.rejected.WithLabelValues(kind).Inc() }

// EventDone counts an event by its result.
func (m *Metrics) EventDone(result string) { m.events.WithLabelValues(result).Inc() }
