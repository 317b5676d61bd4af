// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Evictions are the metrics of actions preempt and reclaim.
type Evictions struct {
	tries, pods, work *prometheus.CounterVec
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
		work: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "volcano_gang_evicted_work_seconds_total",
			Help: "Work that these pods lost, by action: for each pod, the seconds since it started or its gang saved its work.",
		}, []string{"action"}),
	}
}

// Try counts a try of the action to make room for a gang or gang group: its result, the pods that were evicted, and the work
// that they lose.
func (e *Evictions) Try(action, result string, pods int, lost time.Duration) {
	e.tries.WithLabelValues(action, result).Inc()
	e.pods.WithLabelValues(action).Add(float64(pods))
	e.work.WithLabelValues(action).Add(lost.Seconds())
}
