// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/metrics/source"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

const (
	// loadInterval is how often the load of nodes is measured, unless the conf sets another interval. loadTimeout bounds
	// one measurement.
	loadInterval = 30 * time.Second
	loadTimeout  = time.Minute
)

// load records the measured load of nodes. The conf names the source of the measurements.
type load struct {
	rest  *rest.Config
	books *books.Books

	mu   sync.Mutex
	conf map[string]string
}

// use selects the source for the next and later measurements.
func (l *load) use(conf map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conf = maps.Clone(conf)
}

func (l *load) config() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conf
}

// run measures the load of the nodes repeatedly until the context ends.
func (l *load) run(ctx context.Context) {
	for ctx.Err() == nil {
		conf := l.config()
		if conf["type"] != "" {
			l.measure(ctx, conf)
		}
		interval, err := time.ParseDuration(conf["interval"])
		if err != nil || interval <= 0 {
			interval = loadInterval
		}
		pause.For(ctx, interval)
	}
}

func (l *load) measure(ctx context.Context, conf map[string]string) {
	client, err := source.NewMetricsClient(l.rest, conf)
	if err != nil {
		logger().Error(err, "Creating the client for node metrics failed", "type", conf["type"])
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	measured := map[string]*source.NodeMetrics{}
	for _, name := range l.books.Nodes.Names() {
		measured[name] = &source.NodeMetrics{}
	}
	if err := client.NodesMetricsAvg(ctx, measured); err != nil {
		logger().Error(err, "Reading node metrics failed", "type", conf["type"])
		return
	}
	usage := make(map[string]*api.NodeUsage, len(measured))
	for name, m := range measured {
		usage[name] = &api.NodeUsage{
			MetricsTime: m.MetricsTime,
			CPUUsageAvg: map[string]float64{source.NODE_METRICS_PERIOD: m.CPU},
			MEMUsageAvg: map[string]float64{source.NODE_METRICS_PERIOD: m.Memory},
		}
	}
	l.books.Nodes.SetUsage(usage)
}
