// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// confs are the configurations that schedulers run with, one after the other.
type confs struct {
	orders control.Dir
	seed   uint64

	mu sync.Mutex
	// weight is the argument that changes from one configuration to the next.
	weight int
}

func newConfs(orders control.Dir, seed uint64) *confs {
	return &confs{orders: orders, seed: seed, weight: 1}
}

// next makes another configuration the current one.
func (c *confs) next() string {
	c.mu.Lock()
	c.weight = c.weight%5 + 1
	c.mu.Unlock()
	return c.current()
}

// current returns the configuration for a scheduler that starts now: the default, whose last plugin is binpack, and
// additions. Gangs may evict pods of lower priority, and pods of queues that use more than their share.
func (c *confs) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Replace(config.DefaultConf, "allocate,", "allocate, preempt, reclaim,", 1) + fmt.Sprintf(`    arguments:
      binpack.weight: %d
  - name: ibcluster
    arguments:
      ibcluster.levels: [%s]
- plugins:
  - name: %s
    arguments:
      control: %s
      failPercent: 10
      seed: %d
      timeout: 5s
`, c.weight, clusterLabel, plugin, c.orders, c.seed%1_000_000)
}

// invalid is a configuration that must be rejected.
const invalid = "actions: \"enqueue, alocate\"\ntiers: []\n"
