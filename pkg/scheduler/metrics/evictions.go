// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Evictions are the metrics of actions preempt and reclaim.
type Evictions struct {
	tries, pods, putBack, work *prometheus.CounterVec
	time                       *prometheus.HistogramVec
}

func newEvictions(factory promauto.Factory) *Evictions {
	return &Evictions{
		tries: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_eviction_tries_total",
			Help: "Number of tries of actions preempt and reclaim to make room for a gang or gang group, by action and result: evicted, not_needed (it fits without evictions), refused.",
		}, []string{"action", "result"}),
		pods: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_evicted_pods_total",
			Help: "Number of pods that actions preempt and reclaim evicted, by action.",
		}, []string{"action"}),
		putBack: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_eviction_put_back_pods_total",
			Help: "Number of pods that actions preempt and reclaim had chosen to evict for a gang, and then found not to be needed, by action.",
		}, []string{"action"}),
		time: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "volcano_gang_eviction_try_duration_seconds",
			Help:    "Time of a try of actions preempt and reclaim to make room for a gang or gang group, by action and result.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"action", "result"}),
		work: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_evicted_work_seconds_total",
			Help: "Work that these pods lost, by action: for each pod, the seconds since it started or its gang saved its work.",
		}, []string{"action"}),
	}
}

// Try counts a try of the action to make room for a gang or gang group, its result, and how long it took.
func (e *Evictions) Try(action, result string, took time.Duration) {
	e.time.WithLabelValues(action, result).Observe(took.Seconds())
	e.tries.WithLabelValues(action, result).Inc()
}

// Evicted counts the pods that the action evicted in a try, the pods that it had chosen, too, and put back, and the work that the
// evicted pods lose.
func (e *Evictions) Evicted(action string, pods, putBack int, lost time.Duration) {
	e.pods.WithLabelValues(action).Add(float64(pods))
	e.putBack.WithLabelValues(action).Add(float64(putBack))
	e.work.WithLabelValues(action).Add(lost.Seconds())
}
