// SPDX-License-Identifier: Apache-2.0

package cache

import (
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// The methods that sessions call, in the order in which they call them.

// OnSessionOpen keeps the status of this scheduler's NodeShard unchanged while the session runs.
func (c *Cache) OnSessionOpen() { c.shards.sessionOpens() }

// Snapshot returns a snapshot of the books with the changes that sessions need. The caller owns all of it.
func (c *Cache) Snapshot() *api.ClusterInfo {
	c.ledger.SessionOpens()
	return c.snapshots.full()
}

// SessionSnapshot returns the Snapshot of the session that opens now, and the view of its nodes for Kubernetes' plugins. The
// session owns both until the next call. It also reports gangs that the session does not see.
func (c *Cache) SessionSnapshot() (*api.ClusterInfo, map[string]fwk.NodeInfo) {
	c.ledger.SessionOpens()
	given, nodeMap, seen := c.snapshots.session()
	for _, fault := range c.hyperNodes.invalid() {
		c.reports.InvalidHyperNode(fault.hyperNode, fault.message)
	}
	c.reports.Unseen(seen, c.quarantine.objects.Gangs())
	logger().V(3).Info("Snapshot for a session", "jobs", len(given.Jobs), "queues", len(given.Queues), "nodes", len(given.Nodes))
	return given, nodeMap
}

// TrustSession makes the next snapshot compare less of its copies, because the closed session has changed them only in known
// ways.
func (c *Cache) TrustSession() { c.books.Copies().Trust() }

// AddBindTask adds the task to its gang's transaction without pre-bind steps. This project's sessions use AddToTransaction
// instead, which takes the steps.
func (c *Cache) AddBindTask(bindCtx *vccache.BindContext) error {
	return c.AddToTransaction(bindCtx, nil, nil, nil)
}

// AddToTransaction reserves the task's resources on its node and adds it to the open transaction of its gang, or of its gang's
// gang group.
func (c *Cache) AddToTransaction(bindCtx *vccache.BindContext, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error {
	return c.ledger.Add(bindCtx.TaskInfo, gangGroup, decided, steps)
}

// Evict marks the task as leaving in the books and deletes its pod. It returns an error while sessions see only part of
// the jobs.
func (c *Cache) Evict(task *api.TaskInfo, reason string) error {
	if c.quarantine.Searching() {
		return errSearching
	}
	return c.evictor.Evict(task, reason)
}

// ReleaseIncomplete releases the open transactions that are below their gang's minimum, and returns their tasks.
func (c *Cache) ReleaseIncomplete() map[api.JobID][]api.TaskID { return c.ledger.ReleaseIncomplete() }

// SealTransactions submits every open transaction to the engine. It is idempotent.
func (c *Cache) SealTransactions() { c.ledger.Seal() }

// UpdateJobStatus takes a session's verdict on a gang, to be corrected, written and reported.
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
	standing := report.Standing{InFlight: c.ledger.InFlight(job.UID), LacksHyperNodes: job.ContainsHardTopology() && c.hyperNodes.none()}
	if reason, message, is := c.quarantine.objects.Why(job.UID); is {
		standing.Quarantined = quarantine.Verdict{Reason: reason, Message: message}
	}
	_, standing.Blocked = c.Blocked(job.UID)
	c.reports.SessionDone(job, standing)
	return job, nil
}

// OnSessionClose writes the status of this scheduler's NodeShard if it changed during the session. Upstream calls it twice.
func (c *Cache) OnSessionClose() { c.shards.sessionCloses() }
