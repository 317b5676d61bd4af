package cache

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// AddBindTask adds the task to its gang's transaction without any pre-bind step. Sessions of ours use
// AddToTransaction, which gives the steps.
func (c *Cache) AddBindTask(bindCtx *vccache.BindContext) error {
	return c.AddToTransaction(bindCtx, nil, nil)
}

// AddToTransaction reserves the task's resources on its node and adds it to its gang's open transaction. A gang
// has one transaction a session; it is sealed as soon as the session goes on to another gang and the members so
// far are enough, and at the latest when the session's actions are done.
func (c *Cache) AddToTransaction(bindCtx *vccache.BindContext, decided map[string]string, steps []binding.Step) error {
	member, err := c.reserve(bindCtx, decided, steps)
	if err != nil {
		return fmt.Errorf("reserving pod %s on node %s: %w", klog.KObj(bindCtx.TaskInfo.Pod), bindCtx.TaskInfo.NodeName, err)
	}
	gang := member.Task.Job
	var ready *binding.Transaction
	c.openMu.Lock()
	if last, ok := c.open[c.lastOpen]; ok && c.lastOpen != gang {
		ready = last
		delete(c.open, c.lastOpen)
	}
	tx, ok := c.open[gang]
	if !ok {
		tx = &binding.Transaction{Gang: gang}
		c.open[gang] = tx
	}
	tx.Members = append(tx.Members, member)
	c.lastOpen = gang
	c.openMu.Unlock()
	if ready != nil {
		c.submitIfEnough(ready)
	}
	return nil
}

// submitIfEnough submits the transaction when its members are enough for the gang's minimum. Otherwise it stays
// open: a later action of the session, such as backfill, may add the members it lacks.
func (c *Cache) submitIfEnough(tx *binding.Transaction) {
	c.SchedulerCache.Mutex.Lock()
	err := errors.New("gone")
	if job, ok := c.Jobs[tx.Gang]; ok && job.PodGroup != nil {
		err = binding.ShortOf(job, &job.PodGroup.Spec, binding.Including(tx.Members))
	}
	c.SchedulerCache.Mutex.Unlock()
	if err == nil {
		c.submit(tx)
		return
	}
	c.openMu.Lock()
	c.open[tx.Gang] = tx
	c.openMu.Unlock()
}

// SealTransactions hands every open transaction to the engine.
func (c *Cache) SealTransactions() {
	c.openMu.Lock()
	open := c.open
	c.open = map[api.JobID]*binding.Transaction{}
	c.openMu.Unlock()
	for _, tx := range open {
		c.submit(tx)
	}
}

func (c *Cache) submit(tx *binding.Transaction) {
	c.recordMinimum(tx)
	err := c.engine.Submit(tx)
	if err == nil {
		return
	}
	logger().Info("Transaction refused, its members are released", "gang", tx.Gang, "members", len(tx.Members), "reason", err.Error())
	for _, m := range tx.Members {
		if undoErr := c.engine.Undo(m); undoErr != nil {
			logger().Error(undoErr, "Member of a refused transaction is not released")
			continue
		}
		c.Released(m, err)
	}
}

// recordMinimum stages, for each member, the minimum it is to be bound for.
func (c *Cache) recordMinimum(tx *binding.Transaction) {
	var least int32
	c.SchedulerCache.Mutex.Lock()
	if job, ok := c.Jobs[tx.Gang]; ok && job.PodGroup != nil {
		least = binding.LeastMembers(job.PodGroup)
	}
	c.SchedulerCache.Mutex.Unlock()
	for _, m := range tx.Members {
		m.RecordMinimum(least)
	}
}

// reserve books the task's resources in the cache and makes the member. Whatever may fail is done before the
// books are touched, so that an error leaves the task Pending.
func (c *Cache) reserve(bindCtx *vccache.BindContext, decided map[string]string, steps []binding.Step) (*binding.Member, error) {
	wanted := bindCtx.TaskInfo
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	job, task, err := c.find(wanted)
	if err != nil {
		return nil, err
	}
	if task.Status != api.Pending {
		return nil, fmt.Errorf("task is %s, not Pending", task.Status)
	}
	node, ok := c.Nodes[wanted.NodeName]
	if !ok {
		return nil, errors.New("node is not in the cache")
	}
	member := binding.NewMember(task, node.Name, steps)
	stageDecisions(member, wanted, decided)
	if err := member.Task.SetPodResourceDecision(); err != nil {
		return nil, err
	}
	if err := job.UpdateTaskStatus(task, api.Binding); err != nil {
		return nil, err
	}
	before, pod := task.NumaInfo, task.Pod
	task.NumaInfo = wanted.NumaInfo.Clone()
	if len(decided) > 0 {
		annotated := *pod
		annotated.Annotations = maps.Clone(member.Task.Pod.Annotations)
		task.Pod = &annotated
	}
	if err := node.AddTask(task); err != nil {
		task.NumaInfo, task.Pod = before, pod
		return nil, errors.Join(err, job.UpdateTaskStatus(task, api.Pending))
	}
	if task.Pod != pod {
		c.undecided[task.UID] = pod
	}
	return member, nil
}

// stageDecisions carries over to the member what the session decided for its own copy of the task.
func stageDecisions(member *binding.Member, wanted *api.TaskInfo, decided map[string]string) {
	task := member.Task
	task.NodeName = member.Node
	task.Pod.Spec.NodeName = member.Node
	task.NumaInfo = wanted.NumaInfo.Clone()
	task.CustomBindErrHandler = wanted.CustomBindErrHandler
	if task.Pod.Annotations == nil {
		task.Pod.Annotations = map[string]string{}
	}
	maps.Copy(task.Pod.Annotations, decided)
}

// find returns the cache's own job and task; the cache's mutex is held.
func (c *Cache) find(task *api.TaskInfo) (*api.JobInfo, *api.TaskInfo, error) {
	job, ok := c.Jobs[task.Job]
	if !ok {
		return nil, nil, fmt.Errorf("PodGroup %s is not in the cache", task.Job)
	}
	own, ok := job.Tasks[task.UID]
	if !ok {
		return nil, nil, errors.New("pod is not in the cache")
	}
	return job, own, nil
}
