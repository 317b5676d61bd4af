// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ledger"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Methods of Cache that sessions call, in the order of the calls.

// OnSessionOpen keeps the status of this scheduler's NodeShard unchanged while the session runs.
func (c *Cache) OnSessionOpen() { c.shards.sessionOpens() }

// Snapshot returns a snapshot of the books, with the changes that type snapshots lists. The snapshot shares nothing
// with the books and belongs to the caller.
func (c *Cache) Snapshot() *api.ClusterInfo {
	c.ledger.SessionOpens()
	return c.snapshots.full()
}

// SessionSnapshot returns the snapshot for the session that opens now, and its nodes in their other forms. Both belong
// to the session until the next call. SessionSnapshot also returns the annotations of pending tasks' pods, to read only,
// and reports gangs that the session does not see.
func (c *Cache) SessionSnapshot() (*api.ClusterInfo, snapshot.NodeForms, map[api.TaskID]map[string]string) {
	c.ledger.SessionOpens()
	given, forms, annotations, seen := c.snapshots.session()
	for _, fault := range c.hyperNodes.invalid() {
		c.reports.InvalidHyperNode(fault.hyperNode, fault.message)
	}
	c.reports.Unseen(seen, c.quarantine.objects.Gangs(), c.quarantine.objects.Queues())
	logger().V(3).Info("Snapshot for a session", "jobs", len(given.Jobs), "queues", len(given.Queues), "nodes", len(given.Nodes))
	return given, forms, annotations
}

// TrustSession makes the next snapshot check less thoroughly whether the closed session has changed its copies of nodes
// and jobs. The next snapshot uses unchanged copies again. TrustSession is called if the session has changed placed
// tasks only through the methods of jobs and nodes, and only of the touched jobs and nodes.
func (c *Cache) TrustSession(touched snapshot.Touched) { c.books.Copies().Trust(touched) }

// AddBindTask adds the task to its gang's transaction without pre-bind steps. This project's sessions use
// AddToTransaction instead, which takes the steps.
func (c *Cache) AddBindTask(bindCtx *vccache.BindContext) error {
	return c.AddToTransaction(bindCtx, nil, nil, nil)
}

// AddToTransaction reserves the task's resources on its node and adds the task to an open transaction. The transaction
// is that of the gang group, or that of the task's gang if gangGroup is nil. decided are annotations that are written
// with the task's Binding. steps are the pre-bind steps of the task.
func (c *Cache) AddToTransaction(bindCtx *vccache.BindContext, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error {
	return c.ledger.Add(bindCtx.TaskInfo, gangGroup, decided, steps)
}

// Evict gives the task status Releasing in the books, and deletes its pod. While a search for an object that makes
// cycles panic hides jobs from sessions, it returns an error instead.
func (c *Cache) Evict(task *api.TaskInfo, reason string) error {
	if c.quarantine.Searching() {
		return errSearching
	}
	return c.evictor.Evict(task, reason)
}

// EvictTogether gives the tasks status Releasing in the books, and evicts their pods (ledger.Evictor). While a search for an
// object that makes cycles panic hides jobs from sessions, it returns an error instead.
func (c *Cache) EvictTogether(all []framework.Eviction) error {
	if c.quarantine.Searching() {
		return errSearching
	}
	victims := make([]ledger.Victim, len(all))
	for i, e := range all {
		victims[i] = ledger.Victim{Task: e.Task, Reason: e.Reason, Protected: e.Protected}
		if e.For != nil {
			victims[i].For = e.For.PodGroup
		}
	}
	return c.evictor.EvictTogether(victims)
}

// ReleaseIncomplete releases the open transactions that are below their gang's minimum, and returns the tasks of these
// transactions by gang.
func (c *Cache) ReleaseIncomplete() map[api.JobID][]api.TaskID { return c.ledger.ReleaseIncomplete() }

// SealTransactions submits every open transaction to the engine. It is idempotent.
func (c *Cache) SealTransactions() { c.ledger.Seal() }

// UpdateJobStatus receives a session's verdict on a gang. The cache corrects, writes and reports the verdict.
func (c *Cache) UpdateJobStatus(job *api.JobInfo, _, updateAnnotations, updateJobInfo bool) (*api.JobInfo, error) {
	if isOrphan(job) {
		return job, nil
	}
	if updateAnnotations {
		c.books.Jobs.NoteHyperNode(job)
	}
	if updateJobInfo {
		c.books.Jobs.NoteHyperNodes(job)
	}
	standing := report.Standing{InFlight: c.ledger.InFlight(job.UID)}
	if job.ContainsNetworkTopology() {
		standing.HyperNodes = c.hyperNodes.summary()
	}
	if reason, message, is := c.quarantine.objects.Why(job.UID); is {
		standing.Quarantined = quarantine.Verdict{Reason: reason, Message: message}
	}
	_, standing.Blocked = c.Blocked(job.UID)
	c.reports.SessionDone(job, standing)
	return job, nil
}

// OnSessionClose writes the status of this scheduler's NodeShard if it changed during the session. Upstream calls it
// twice for each session.
func (c *Cache) OnSessionClose() { c.shards.sessionCloses() }
