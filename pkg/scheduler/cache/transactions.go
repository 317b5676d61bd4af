// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

// AddBindTask adds the task to its gang's transaction without any pre-bind step. Sessions of ours use
// AddToTransaction, which gives the steps.
func (c *Cache) AddBindTask(bindCtx *vccache.BindContext) error {
	return c.AddToTransaction(bindCtx, nil, nil, nil)
}

// AddToTransaction reserves the task's resources on its node and adds it to the open transaction of its gang, or of its gang's
// unit. A unit has one transaction a session; it is sealed as soon as the session goes on to another one and the members so
// far are enough, and at the latest when the session's actions are done.
func (c *Cache) AddToTransaction(bindCtx *vccache.BindContext, unit *binding.Unit, decided map[string]string, steps []binding.Step) error {
	member, err := c.reserve(bindCtx, decided, steps)
	if err != nil {
		return fmt.Errorf("reserving pod %s on node %s: %w", klog.KObj(bindCtx.TaskInfo.Pod), bindCtx.TaskInfo.NodeName, err)
	}
	c.openMu.Lock()
	ready := c.addToOpen(member, unit)
	c.openMu.Unlock()
	if ready != nil {
		c.submitIfEnough(ready)
	}
	return nil
}

// addToOpen adds the member to its unit's transaction. It returns the transaction of the unit that the session was at
// before, if it went on, which is not open any more. One to which members of a later transaction would not count stays open.
func (c *Cache) addToOpen(member *binding.Member, unit *binding.Unit) (ready *binding.Transaction) {
	gang := member.Task.Job
	if unit != nil {
		gang = unit.Gangs[0].Gang
	}
	if last, ok := c.open[c.lastOpen]; ok && c.lastOpen != gang && !last.CountsNone() {
		ready = last
		delete(c.open, c.lastOpen)
	}
	tx, ok := c.open[gang]
	if !ok {
		tx = &binding.Transaction{Gang: gang, Unit: unit}
		c.open[gang] = tx
		c.inOrder = append(c.inOrder, tx)
	}
	tx.Members = append(tx.Members, member)
	c.lastOpen = gang
	return ready
}

// submitIfEnough submits the transaction when its members are enough for the gangs' minima. Otherwise it stays
// open: a later action of the session, such as backfill, may add the members it lacks.
func (c *Cache) submitIfEnough(tx *binding.Transaction) {
	if there, short := c.shortOf(tx); there && short == nil {
		c.submit(tx, nil)
		return
	}
	c.openMu.Lock()
	c.open[tx.Gang] = tx
	c.openMu.Unlock()
}

// SubmitWhole hands the open transactions with enough members to the engine: the next action of the session may take minutes. One to
// which members of a later transaction would not count stays open.
func (c *Cache) SubmitWhole() {
	c.openMu.Lock()
	whole := slices.DeleteFunc(slices.Clone(c.inOrder), func(tx *binding.Transaction) bool { return c.open[tx.Gang] != tx || tx.CountsNone() })
	for _, tx := range whole {
		delete(c.open, tx.Gang)
	}
	c.openMu.Unlock()
	for _, tx := range whole {
		c.submitIfEnough(tx)
	}
}

// SealTransactions hands every open transaction to the engine, in the order in which the session came to their gangs:
// the engine serves the first one first.
func (c *Cache) SealTransactions() {
	c.openMu.Lock()
	open, inOrder := c.open, c.inOrder
	c.open, c.inOrder = map[api.JobID]*binding.Transaction{}, nil
	c.openMu.Unlock()
	for _, tx := range inOrder {
		if open[tx.Gang] == tx { // else it was submitted before
			c.submit(tx, nil)
		}
	}
}

// submit hands the transaction to the engine; with a cause for its members to be released.
func (c *Cache) submit(tx *binding.Transaction, givenUp error) {
	err := c.handOver(tx, c.recordMinima(tx), givenUp)
	if err == nil {
		return
	}
	logger().Info("Transaction refused, its members are released", "gang", tx.Gang, "members", len(tx.Members), "reason", err.Error())
	for _, m := range tx.Members {
		c.giveBack(m, err)
	}
}

// giveBack releases a member that the engine has not taken over.
func (c *Cache) giveBack(m *binding.Member, cause error) {
	if err := c.engine.Undo(m); err != nil {
		logger().Error(err, "A member that is in no transaction is not released")
		return
	}
	c.Released(m, cause)
}

// recordMinima stages, for each member, the minimum it is to be bound for and the queue it is to be bound in. It returns the versions of the gangs' PodGroups in
// upstream's cache, of those that are there.
func (c *Cache) recordMinima(tx *binding.Transaction) (versions map[api.JobID]string) {
	versions, least, queues := map[api.JobID]string{}, map[api.JobID]int32{}, map[api.JobID]string{}
	c.books.Lock()
	for _, gang := range tx.Gangs() {
		if job := c.books.Jobs.Get(gang); job != nil && job.PodGroup != nil {
			versions[gang], least[gang], queues[gang] = job.PodGroup.ResourceVersion, binding.LeastMembers(job.PodGroup), string(job.Queue)
		}
	}
	c.books.Unlock()
	for _, m := range tx.Members {
		m.RecordMinimum(least[m.Task.Job])
		if queue, known := queues[m.Task.Job]; known {
			m.RecordQueue(queue)
		}
	}
	return versions
}

// handOver holds openMu from the look at what is still there to the hand-over, as whoever cancels does: what is deleted
// before that is seen here, and what is deleted after it is known to the engine.
func (c *Cache) handOver(tx *binding.Transaction, versions map[api.JobID]string, givenUp error) error {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	there := map[api.JobID]bool{}
	for gang, version := range versions {
		there[gang] = !c.isDeleted(gang, version)
	}
	tx.Lost = map[*binding.Member]error{}
	for _, m := range tx.Members {
		switch {
		case !there[m.Task.Job]:
			tx.Lost[m] = deletedPodGroup(m.Task.Job)
		case givenUp != nil:
			tx.Lost[m] = givenUp
		case c.watched(m.Task.Pod) == nil:
			tx.Lost[m] = binding.ErrPodGone
		case !c.watchesNode(m.Node):
			tx.Lost[m] = deletedNode(m.Node)
		}
	}
	return c.engine.Submit(tx)
}

// isDeleted is true if the gang's PodGroup, which upstream's cache has in that version, was deleted: it is not among those
// that are watched here, and that watch has come as far as upstream's own.
func (c *Cache) isDeleted(gang api.JobID, version string) bool {
	namespace, name, err := cache.SplitMetaNamespaceKey(string(gang))
	if err != nil {
		return false
	}
	_, err = c.podGroups.PodGroups(namespace).Get(name)
	return apierrors.IsNotFound(err) && !apiwrite.OlderVersion(c.podGroupsAt(), version)
}

// watchesNode is true if the watch shows the node, as it did before upstream's cache had it.
func (c *Cache) watchesNode(name string) bool {
	_, err := c.sources.kube.Core().V1().Nodes().Lister().Get(name)
	return err == nil
}

// errGangGone is why members of a gang whose PodGroup was deleted are not bound. It is no failure of the gang's.
var errGangGone = errors.New("is gone")

func deletedPodGroup(gang api.JobID) error { return fmt.Errorf("PodGroup %s %w", gang, errGangGone) }

func deletedNode(name string) error { return fmt.Errorf("node %s was deleted", name) }

// cancelPod fails the member of a pod that is gone.
func (c *Cache) cancelPod(pod *v1.Pod) {
	gang := gangOf(pod)
	if held, is := c.books.Pods.HeldGang(pod); is {
		gang = held // the pod may name another PodGroup by now
	}
	c.openMu.Lock()
	defer c.openMu.Unlock()
	c.engine.Cancel(gang, api.TaskID(pod.UID), binding.ErrPodGone)
}

// cancelGang fails the members of a gang whose PodGroup was deleted.
func (c *Cache) cancelGang(gang api.JobID) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	c.engine.CancelGang(gang, deletedPodGroup(gang))
}

// cancelNode fails the members that were to go to a node that was deleted.
func (c *Cache) cancelNode(node string) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	c.engine.CancelNode(node, deletedNode(node))
}

// reserve books the task's resources in the cache and makes the member. An error leaves the task Pending.
func (c *Cache) reserve(bindCtx *vccache.BindContext, decided map[string]string, steps []binding.Step) (*binding.Member, error) {
	wanted := bindCtx.TaskInfo
	var member *binding.Member
	err := c.books.Pods.Reserve(wanted, wanted.NodeName, func(own *api.TaskInfo) (books.Reservation, error) {
		member = binding.NewMember(own, wanted.NodeName, steps)
		stageDecisions(member, wanted, decided)
		if err := member.Task.SetPodResourceDecision(); err != nil {
			return books.Reservation{}, err
		}
		reservation := books.Reservation{Owner: member, NUMA: wanted.NumaInfo.Clone()}
		if len(decided) > 0 {
			reservation.Decided = member.StagedAnnotations()
		}
		return reservation, nil
	})
	return member, err
}

// stageDecisions carries over to the member what the session decided for its own copy of the task.
func stageDecisions(member *binding.Member, wanted *api.TaskInfo, decided map[string]string) {
	task := member.Task
	task.NodeName = member.Node
	task.Pod.Spec.NodeName = member.Node
	task.NumaInfo = wanted.NumaInfo.Clone()
	task.CustomBindErrHandler = wanted.CustomBindErrHandler
	for key, value := range decided {
		member.Stage(key, value)
	}
}
