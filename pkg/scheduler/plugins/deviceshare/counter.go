// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// counter computes the device resources of nodes and pods from Device objects. The free amounts that it returns for a
// node are an upper bound. If pods use devices that are unavailable or do not exist, this does not reduce the free
// amounts of other devices.
type counter struct {
	inventories atomic.Pointer[inventories]

	// mu guards changed, the set of nodes whose Device objects have changed since the last call of takeChanged.
	mu      sync.Mutex
	changed map[string]bool
}

var _ accounting.ResourceCounter = (*plugin)(nil)

func (c *counter) markChanged(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = map[string]bool{}
	}
	c.changed[node] = true
}

// CountPod implements accounting.ResourceCounter.
func (p *plugin) CountPod(pod *v1.Pod) { allocator.CountPod(pod) }

// CountNode implements accounting.ResourceCounter.
func (p *plugin) CountNode(node *v1.Node, pods iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64) {
	return p.inventories.devices.counter.countNode(node, pods)
}

// Names implements accounting.ResourceCounter.
func (p *plugin) Names() []v1.ResourceName { return countedNames }

// ChangedNodes implements accounting.ResourceCounter.
func (p *plugin) ChangedNodes() []string { return p.inventories.devices.counter.takeChanged() }

func (c *counter) countNode(node *v1.Node, pods iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64) {
	inventory := c.inventories.Load().of(node)
	if inventory == nil {
		return nil, nil
	}
	state := inventory.unused
	for pod := range pods {
		a, _ := allocator.AllocationOf(pod) // errors are ignored here: readAllocated logs them in a session
		state = state.With(a)
	}
	return state.FreeSum().Counted(), inventory.unused.FreeSum().Counted()
}

// takeChanged returns the nodes whose Device objects have changed since its last call.
func (c *counter) takeChanged() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := slices.Collect(maps.Keys(c.changed))
	c.changed = nil
	return changed
}

var countedNames = func() (names []v1.ResourceName) {
	for _, r := range allocator.CountedResources {
		names = append(names, r.Name())
	}
	return names
}()
