// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Nodes keeps the fingerprints of nodes, which are hashes of their state, from one session to the next. Most nodes do
// not change in between, so their fingerprints need not be computed again.
type Nodes struct {
	// nodes have the data about the session's nodes that the next session may reuse, by node number: the node's
	// position in the order of names. former have the data of the last session.
	nodes, former []nodeRecord
	// infos are the NodeInfos of the nodes that have a nodeRecord, in the order of these records.
	infos []*api.NodeInfo
	// numbered is the last number that was given to a Node object (nodeRecord.number).
	numbered uint64
}

// nodeRecord holds the data about a node that the next session may reuse.
type nodeRecord struct {
	name string
	// object is the node's Node object. number identifies the object: unlike its address, a number is never used for
	// another object.
	object *v1.Node
	number uint64
	// fingerprint is the node's fingerprint. It was computed from kept, the state of the session's NodeInfo at that
	// time. kept.info is nil if no fingerprint was computed yet.
	fingerprint uint64
	kept        nodeState
	// asGiven reports whether kept is the state of the NodeInfo in the snapshot, before the session changed it.
	asGiven bool
}

// nodeState is the state that the fingerprint of a node depends on.
//
// The tasks are counted, not compared. Package snapshot gives the same NodeInfo to the next session only if it has its original
// tasks, and a session removes only tasks that it has added itself. So a NodeInfo with its original number of tasks has its
// original tasks.
type nodeState struct {
	info                         *api.NodeInfo
	idle, releasing, pipelined   *snapshot.Amount
	allocatable                  *snapshot.Amount
	tasks                        int
	usage                        *api.NodeUsage
	measured                     int64
	oversubscribed, jobsEvicting bool
}

// beginSession starts a session. It drops the nodes that the last session did not use.
func (m *Nodes) beginSession() { m.former, m.nodes = m.nodes, nil }

// open prepares a nodeRecord for each of the session's nodes (all), once in each session. If all has the same NodeInfos
// as in the last session, the nodeRecords of the last session are reused.
func (m *Nodes) open(all []*api.NodeInfo) {
	if m.nodes != nil {
		return
	}
	if m.former != nil && slices.Equal(m.infos, all) {
		m.nodes = m.former
		return
	}
	m.nodes, m.infos = make([]nodeRecord, len(all)), all
	for i, info := range all {
		m.nodes[i].name = info.Name
	}
}

// recordOf returns the record of the node with this number. all are the session's nodes. If the node has the same Node
// object as in the last session, recordOf returns the record of the last session.
func (m *Nodes) recordOf(node int32, all []*api.NodeInfo) *nodeRecord {
	m.open(all)
	r := &m.nodes[node]
	if r.number == 0 {
		if at, found := m.formerPlace(r.name, int(node)); found {
			*r = m.former[at]
		}
	}
	if object := all[node].Node; r.number == 0 || r.object != object {
		m.numbered++
		*r = nodeRecord{name: r.name, object: object, number: m.numbered}
	}
	return r
}

// NumberOf returns the number of the Node object of the node at index node of all, the session's nodes. The number
// stays the same as long as each session has the object. No two objects share a number.
func (m *Nodes) NumberOf(node int32, all []*api.NodeInfo) uint64 { return m.recordOf(node, all).number }

// formerPlace returns the named node's index in former, the records of the last session; false if the last session did
// not have the node. The parameter now is the node's current index, which is tried first, because most nodes keep their
// index.
func (m *Nodes) formerPlace(name string, now int) (int, bool) {
	if now < len(m.former) && m.former[now].name == name {
		return now, true
	}
	return slices.BinarySearchFunc(m.former, name, func(r nodeRecord, name string) int { return cmp.Compare(r.name, name) })
}

// FingerprintOf returns the fingerprint of the node's current state: the stored one if the state is unchanged, else the
// result of compute. touched reports whether the session may have changed the node. If the node is untouched and has
// the NodeInfo of the last session, its state is not compared, because package snapshot has compared it.
func (m *Nodes) FingerprintOf(node int32, all []*api.NodeInfo, touched bool, compute func(number uint64) uint64) uint64 {
	m.open(all)
	info := all[node]
	if known := &m.nodes[node]; !touched && known.asGiven && known.kept.info == info {
		return known.fingerprint
	}
	r := m.recordOf(node, all)
	if r.kept.is(info) {
		r.asGiven = r.asGiven || !touched
		return r.fingerprint
	}
	fingerprint := compute(r.number)
	if (r.kept.info != info || !touched) && !hasPlaced(info) {
		r.kept, r.fingerprint, r.asGiven = stateOf(info, &m.nodes[max(0, node-1)].kept), fingerprint, !touched
	}
	return fingerprint
}

// hasPlaced reports whether the session has placed tasks on the node.
func hasPlaced(info *api.NodeInfo) bool {
	for _, task := range info.Tasks {
		if task.Status == api.Allocated || task.Status == api.Pipelined {
			return true
		}
	}
	return false
}

// stateOf returns the node's state. To save memory, the result shares equal amounts with other, the state of another
// node.
func stateOf(info *api.NodeInfo, other *nodeState) nodeState {
	amount := func(r *api.Resource, shared *snapshot.Amount) *snapshot.Amount {
		if shared != nil && shared.Is(r) {
			return shared
		}
		return snapshot.AmountOf(r)
	}
	return nodeState{
		info: info, tasks: len(info.Tasks), usage: info.ResourceUsage, measured: measuredAt(info),
		idle: amount(info.Idle, other.idle), releasing: amount(info.Releasing, other.releasing),
		pipelined: amount(info.Pipelined, other.pipelined), allocatable: amount(info.Allocatable, other.allocatable),
		oversubscribed: info.OversubscriptionNode, jobsEvicting: info.OfflineJobEvicting,
	}
}

// The method is reports whether the node still has the state s, from which its fingerprint was computed.
func (s *nodeState) is(info *api.NodeInfo) bool {
	return s.info == info && s.tasks == len(info.Tasks) && s.usage == info.ResourceUsage && s.measured == measuredAt(info) &&
		s.oversubscribed == info.OversubscriptionNode && s.jobsEvicting == info.OfflineJobEvicting &&
		s.idle.Is(info.Idle) && s.releasing.Is(info.Releasing) && s.pipelined.Is(info.Pipelined) && s.allocatable.Is(info.Allocatable)
}

// measuredAt returns when the node's usage was measured, in nanoseconds; 0 for a node without a measured usage.
func measuredAt(info *api.NodeInfo) int64 {
	if info.ResourceUsage == nil {
		return 0
	}
	return info.ResourceUsage.MetricsTime.UnixNano()
}
