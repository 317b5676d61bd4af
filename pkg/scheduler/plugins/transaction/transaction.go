// Package transaction is the built-in plugin that tells sessions of bind transactions. It is not named in the conf:
// the scheduler puts it before the first tier of every configuration.
//
// It leaves gangs out that wait out a failed transaction, and keeps them off the nodes they failed on while there is room
// elsewhere. It puts gangs first that are bound in part: binds are separate writes, so a crash between them leaves a gang
// that holds resources and cannot run.
package transaction

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "transaction"

// evictAfter is the argument that says how long a gang may stay bound in part before its members are evicted.
const evictAfter = "evictHalfBoundAfter"

// Gate says which gangs sessions leave out, and which nodes the others failed on.
type Gate interface {
	Blocked(gang api.JobID) (reason string, blocked bool)
	Avoid(gang api.JobID) []string
}

type plugin struct {
	gate Gate
	// evictAfter is 0 when gangs bound in part are never evicted.
	evictAfter time.Duration
	// halfBound holds the gangs that are bound in part, since when, as far as this leader knows.
	halfBound map[api.JobID]time.Time
}

// Spec declares the plugin over the gate.
func Spec(gate Gate) framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Leaves out gangs that wait out a failed bind transaction and puts gangs first that are bound in part.",
		// It has a pre-predicate only, which refuses nothing.
		DependsOn: framework.OnShape,
		New: func(args framework.Arguments, _ framework.Handle) (framework.Plugin, error) {
			limit, _ := args[evictAfter].(time.Duration)
			return &plugin{gate: gate, evictAfter: limit, halfBound: map[api.JobID]time.Time{}}, nil
		},
	}
}

// Tier is the tier that is put before those of the conf. A gang that stays bound in part for longer than limit is
// evicted; 0 never evicts.
func Tier(limit time.Duration) conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledJobOrder: &yes, EnabledQueueOrder: &yes, EnabledJobEnqueued: &yes, EnabledPredicate: &yes,
		Arguments: map[string]interface{}{evictAfter: limit},
	}}}
}

func (p *plugin) Name() string { return Name }

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	queues := p.findHalfBound(ssn)
	ssn.AddJobValidFn(Name, func(obj interface{}) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok {
			return nil
		}
		if reason, blocked := p.gate.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: "WaitingAfterFailedBind", Message: reason}
		}
		return nil
	})
	noteTurns(ssn)
	ssn.AddAvoidFn(Name, func(job *api.JobInfo) []string { return p.gate.Avoid(job.UID) })
	ssn.AddJobOrderFn(Name, func(l, r interface{}) int {
		_, left := p.halfBound[l.(*api.JobInfo).UID]
		_, right := p.halfBound[r.(*api.JobInfo).UID]
		return before(left, right)
	})
	ssn.AddQueueOrderFn(Name, func(l, r interface{}) int {
		return before(queues[l.(*api.QueueInfo).UID], queues[r.(*api.QueueInfo).UID])
	})
}

// noteTurns notes whose turn it is, before any other plugin is asked.
func noteTurns(ssn *framework.Session) {
	ssn.AddJobEnqueueableFn(Name, func(obj interface{}) int {
		ssn.Turn(obj.(*api.JobInfo).UID)
		return util.Abstain
	})
	ssn.AddPrePredicateFn(Name, func(task *api.TaskInfo) error {
		ssn.Turn(task.Job)
		return nil
	})
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { ssn.Turn(event.Task.Job) },
		DeallocateFunc: func(event *vcframework.Event) { ssn.Turn(event.Task.Job) },
	})
}

func before(left, right bool) int {
	switch {
	case left == right:
		return 0
	case left:
		return -1
	default:
		return 1
	}
}

// findHalfBound brings the list of gangs bound in part up to date, lets them in without queueing again, and
// returns their queues.
func (p *plugin) findHalfBound(ssn *framework.Session) map[api.QueueID]bool {
	queues := map[api.QueueID]bool{}
	for uid := range p.halfBound {
		if job, ok := ssn.Jobs[uid]; !ok || !isHalfBound(job) {
			delete(p.halfBound, uid)
		}
	}
	for uid, job := range ssn.Jobs {
		if !isHalfBound(job) {
			continue
		}
		queues[job.Queue] = true
		if job.IsPending() {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
		}
		if _, known := p.halfBound[uid]; known {
			continue
		}
		p.halfBound[uid] = time.Now()
		short := binding.ShortOf(job, &job.PodGroup.Spec, binding.Placed)
		klog.InfoS("Gang is bound in part, it is completed before others", "gang", uid, "short", short)
		ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, "GangHalfBound",
			fmt.Sprintf("part of the gang is bound and the rest is not (%v): it is completed before any other gang", short))
	}
	return queues
}

// isHalfBound says whether some members are bound or run, others wait, and the minimum is not reached.
func isHalfBound(job *api.JobInfo) bool {
	if len(job.TaskStatusIndex[api.Pending]) == 0 || len(job.TaskStatusIndex[api.Binding]) > 0 {
		return false
	}
	if len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running]) == 0 {
		return false
	}
	return binding.ShortOf(job, &job.PodGroup.Spec, binding.Placed) != nil
}

// OnSessionClose evicts what the conf wants evicted: gangs that this session could not complete either, and that
// have been bound in part for too long.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	if p.evictAfter <= 0 {
		return
	}
	for uid, since := range p.halfBound {
		job, found := ssn.Jobs[uid]
		if !found || time.Since(since) < p.evictAfter || !isHalfBound(job) {
			continue
		}
		reason := fmt.Sprintf("its gang has been bound in part for more than %s (%s)", p.evictAfter, evictAfter)
		for _, task := range placedTasks(job) {
			if err := ssn.Evict(task, reason); err != nil {
				klog.ErrorS(err, "Evicting a member of a gang bound in part", "pod", klog.KObj(task.Pod))
			}
		}
		delete(p.halfBound, uid)
	}
}

func placedTasks(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, status := range []api.TaskStatus{api.Bound, api.Running} {
		for _, task := range job.TaskStatusIndex[status] {
			tasks = append(tasks, task)
		}
	}
	return tasks
}
