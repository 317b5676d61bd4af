// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/metrics/source"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// prometheus answers queries for CPU with 40 and for memory with 70.
func prometheus(t *testing.T, asked *atomic.Int32) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		value := 40
		if strings.Contains(r.FormValue("query"), "memory") {
			value = 70
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"%d"]}]}}`, value)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestNodesAreMeasured checks that sessions see the measurements of the configured source from the next session on,
// and none without a source.
func TestNodesAreMeasured(t *testing.T) {
	tests := map[string]struct {
		conf     map[string]string
		measured bool
		cpu, mem float64
	}{
		"by Prometheus":            {conf: map[string]string{"type": source.Metrics_Tpye_Prometheus}, measured: true, cpu: 40, mem: 70},
		"by a source there is not": {conf: map[string]string{"type": "abacus"}},
		"by none":                  {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			cluster := schedtest.NewCluster()
			c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
			c.books.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
			c.SessionSnapshot() // The copied node is copied again.
			if tt.conf != nil {
				tt.conf["address"], tt.conf["interval"] = prometheus(t, &asked), "1ms"
				c.SetMetricsConf(tt.conf)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.measured {
				go c.load.run(ctx)
				eventually(t, "the node is measured", func() bool {
					given, _, _ := c.SessionSnapshot()
					return given.Nodes["n"].ResourceUsage.CPUUsageAvg[source.NODE_METRICS_PERIOD] > 0
				})
			} else {
				c.load.measure(ctx, c.load.config())
			}
			given, _, _ := c.SessionSnapshot()
			usage := given.Nodes["n"].ResourceUsage
			cpu, mem := usage.CPUUsageAvg[source.NODE_METRICS_PERIOD], usage.MEMUsageAvg[source.NODE_METRICS_PERIOD]
			if cpu != tt.cpu || mem != tt.mem || (asked.Load() > 0) != tt.measured {
				t.Errorf("the load is %v of CPU and %v of memory after %d queries, want %v and %v", cpu, mem, asked.Load(), tt.cpu, tt.mem)
			}
		})
	}
}

// TestTheConfOfTheLoadIsTheCachesOwn checks that the cache has its own copy of the load configuration: a reload that
// changes the map does not change the measurement.
func TestTheConfOfTheLoadIsTheCachesOwn(t *testing.T) {
	c := mustWrap(t, schedtest.NewCluster(), quiet{}, func(Urgency) {})
	conf := map[string]string{"type": "a"}
	c.SetMetricsConf(conf)
	conf["type"] = "b"
	if got := c.load.config()["type"]; got != "a" {
		t.Errorf("the type is %s, want a", got)
	}
}
