// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

// supplies caches the number of the cluster's GPUs by model. It counts them again when a Device object or the number of
// nodes has changed.
type supplies struct {
	counted        bool
	changes, nodes int64
	supply         fragmentation.Supply
}

// of returns the number of GPUs on the session's nodes, by model.
func (s *supplies) of(inventories *inventories, nodes map[string]*api.NodeInfo) fragmentation.Supply {
	changes := inventories.devices.changes.Load()
	if s.counted && s.changes == changes && s.nodes == int64(len(nodes)) {
		return s.supply
	}
	supply := fragmentation.Supply{}
	for _, node := range nodes {
		if node.Node == nil {
			continue
		}
		if inventory := inventories.of(node.Node); inventory != nil {
			supply[inventory.Model] += len(inventory.Devices[allocator.GPU])
		}
	}
	*s = supplies{true, changes, int64(len(nodes)), supply}
	return supply
}

// keepsFit reports whether the plugin also scores nodes for tasks without devices, so that these tasks leave CPU and
// memory of nodes with GPUs to tasks that need GPUs. It does so with the fragmentation strategy, while nodes have GPUs.
func (s *session) keepsFit() bool {
	return s.common.strategy.Type == fragmentationStrategy && len(s.supply) > 0
}

// fitnessWith returns the score, from 0 to 100, of a node for a task without devices. It returns 0 while the cluster
// has no GPUs or no task has requested GPUs.
func (s *session) fitnessWith(task *api.TaskInfo, node *api.NodeInfo) float64 {
	if !s.keepsFit() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.classesNow().Len() == 0 {
		return 0
	}
	waits := framework.Waits(s.ssn, task, node)
	on := s.strategyFor(task, node, idle(node, waits)).options.Strategy
	inventory := s.common.inventories.of(node.Node)
	if inventory == nil {
		return on.NodeScore(nil, nil)
	}
	state := s.ledgerOf(node, inventory).beside(waits)
	return on.NodeScore(state, state)
}
