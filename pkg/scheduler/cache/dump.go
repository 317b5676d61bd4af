// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
)

// dumpView is the cache as upstream's dumper reads it.
type dumpView struct{ *Cache }

// ForDump returns a view of the cache whose method Snapshot returns a copy of the books, and changes nothing that sessions
// use. Upstream's dumper calls Snapshot on its own goroutine, also during a session.
func ForDump(c *Cache) vccache.Cache { return dumpView{c} }

// Snapshot returns a copy of the books. It shares nothing with the books and belongs to the caller.
func (d dumpView) Snapshot() *api.ClusterInfo { return d.snapshots.bare() }

// bare returns a copy of the books, with the HyperNodes of the last session. Of the changes that type snapshots lists, it
// has only the nodes' own state of their devices.
func (s *snapshots) bare() *api.ClusterInfo {
	hyperNodes := s.hyperNodes.latest()
	s.books.Lock()
	whole := s.books.Full(hyperNodes, false)
	s.books.Unlock()
	devices.Own(whole.Nodes)
	return whole
}
