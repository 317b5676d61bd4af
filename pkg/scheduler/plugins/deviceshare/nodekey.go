// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"hash/maphash"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// SignNode implements framework.Signer. The key covers the node's Device object, the use of devices by pods, the free
// CPUs by NUMA node, and the inputs of strategies. Each version of a Device object has its own number in the key, so
// the key changes if the object changes while a session runs.
func (s *session) SignNode(node *api.NodeInfo) (uint64, bool) {
	if node.Node == nil {
		return 0, true
	}
	inventory := s.common.inventories.of(node.Node)
	if inventory == nil {
		return maphash.String(s.common.verdicts.seed, s.common.inventories.devices.byNumbers(node.Name, podsOf(node))), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger := s.ledgerOf(node, inventory)
	key := s.contextOf(inventory.key, inventory.number, s.common.verdicts.useOf(ledger, ledger.now), s.common.verdicts.useOf(ledger, ledger.later),
		uint64(ledger.unknown), uint64(ledger.unknownLater), s.common.templates.current.Load().number)
	if s.common.strategy.Type == fragmentationStrategy {
		s.classesNow()
		key = s.contextOf(key, s.history().version)
	}
	free := s.freeCPUs(node)
	for _, id := range slices.Sorted(maps.Keys(free)) {
		key = s.contextOf(key, uint64(id), uint64(free[id]))
	}
	return key, true
}
