// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// GangCounts are the numbers of gangs by state, and the number of gang groups in flight. Every state must have an
// entry, even with 0 gangs.
type GangCounts struct {
	ByState        map[string]int
	GroupsInFlight int
}

// gangMetrics are the metrics of gangs. No label has values that tenants choose.
type gangMetrics struct {
	waited   *prometheus.HistogramVec
	timeOuts prometheus.Counter
	reserved prometheus.Gauge
	ended    *prometheus.CounterVec
	counter  *gangCounter
}

func newGangs(registry prometheus.Registerer) gangMetrics {
	factory := promauto.With(registry)
	g := gangMetrics{
		waited: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volcano_gang_waiting_seconds", Buckets: prometheus.ExponentialBuckets(0.1, 3, 14), // 0.1 s to 44 h
			Help: "Time that a gang waited for a reason, observed when the wait ends: its minimum is bound, or its waiting time has passed (bound, timed_out). " +
				"A gang is observed once for each of its reasons.",
		}, []string{"reason", "end"}),
		timeOuts: factory.NewCounter(prometheus.CounterOpts{
			Name: "volcano_gang_timeouts_total",
			Help: "Number of times a gang returned to Pending because it was not scheduled within its waiting time. Each gang of a group counts.",
		}),
		reserved: factory.NewGauge(prometheus.GaugeOpts{
			Name: "volcano_gang_node_reservations",
			Help: "Number of gangs with a node reservation.",
		}),
		ended: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_node_reservations_ended_total",
			Help: "Number of node reservations that ended, by end (placed, below_minimum, expired, gang_deleted, nodes_lost, not_admitted, disabled).",
		}, []string{"end"}),
		counter: &gangCounter{},
	}
	for _, end := range gangs.ReservationEnds {
		g.ended.WithLabelValues(string(end))
	}
	registry.MustRegister(g.counter)
	return g
}

// GangWaited records how long a gang waited for a reason, when the wait has ended.
func (g *gangMetrics) GangWaited(reason framework.PendingCategory, end report.PendingEnd, waited time.Duration) {
	g.waited.WithLabelValues(string(reason), string(end)).Observe(waited.Seconds())
}

// GangTimedOut counts a gang that returned to Pending because its waiting time has passed.
func (g *gangMetrics) GangTimedOut() { g.timeOuts.Inc() }

// ReservationEnded counts a node reservation that ended.
func (g *gangMetrics) ReservationEnded(end gangs.ReservationEnd) {
	g.ended.WithLabelValues(string(end)).Inc()
}

// Reservations sets the current number of node reservations.
func (g *gangMetrics) Reservations(now int) { g.reserved.Set(float64(now)) }

// CountGangs sets the function that each scrape calls to count gangs.
func (g *gangMetrics) CountGangs(count func() GangCounts) { g.counter.count.Store(&count) }

var (
	gangsDesc = prometheus.NewDesc("volcano_gangs",
		"Number of gangs, by state (waiting, admitted, timed_out, in_flight, partial, bound, running, ended).", []string{"state"}, nil)
	groupsDesc = prometheus.NewDesc("volcano_gang_groups_in_flight",
		"Number of gang groups with a bind transaction in flight.", nil, nil)
)

// gangCounter counts gangs on each scrape. A process that does not lead reports no counts.
type gangCounter struct {
	count atomic.Pointer[func() GangCounts]
}

// Describe implements prometheus.Collector.
func (*gangCounter) Describe(descs chan<- *prometheus.Desc) {
	descs <- gangsDesc
	descs <- groupsDesc
}

// Collect implements prometheus.Collector.
func (c *gangCounter) Collect(metrics chan<- prometheus.Metric) {
	count := c.count.Load()
	if count == nil {
		return
	}
	counts := (*count)()
	for state, n := range counts.ByState {
		metrics <- prometheus.MustNewConstMetric(gangsDesc, prometheus.GaugeValue, float64(n), state)
	}
	metrics <- prometheus.MustNewConstMetric(groupsDesc, prometheus.GaugeValue, float64(counts.GroupsInFlight))
}
