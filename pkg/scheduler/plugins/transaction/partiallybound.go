// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// PartiallyBound is the type of the condition of a PodGroup whose gang is partially bound. A tenant may write the
// condition, so no decision depends on it. The scheduler keeps in memory since when a gang is partially bound. A new
// leader counts from the time when it first sees the gang in this state.
const PartiallyBound scheduling.PodGroupConditionType = "PartiallyBound"

// partiallyBoundReason is the reason of the condition PartiallyBound, and of the event about a partially bound gang.
const partiallyBoundReason = "PartiallyBound"

// A gang is partially bound when some members hold nodes, the gang is below its minimum, and the minimum is no larger
// than when they were bound. Such a gang holds resources and cannot run. Bindings are separate writes, so a crash
// between them can leave a gang in this state. The loss of a member can do so, too. A gang that reached its minimum,
// and is below it because the minimum was raised later, is not partially bound: it waits like any other gang.

// findPartiallyBound finds the waiting gangs that are partially bound. It admits these gangs without queueing them
// again, and updates their conditions.
func (p *plugin) findPartiallyBound(ssn *framework.Session) {
	p.partiallyBound, p.ofGroup = map[api.JobID]time.Time{}, map[api.JobID]bool{}
	p.formerGroups, p.groups = p.groups, map[api.JobID]group{}
	if _, p.coscheduling = ssn.PluginOption(gangs.Plugin); !p.coscheduling {
		dropConditionsOfCoscheduling(ssn)
	}
	p.forgetInterrupted(ssn)
	p.first = map[api.JobID]map[api.TaskID]bool{}
	underWay, seen := map[api.JobID]time.Time{}, map[api.JobID]time.Time{}
	defer func() {
		p.memory.binding, p.memory.seen = underWay, seen
		maps.DeleteFunc(p.memory.reported, func(uid api.JobID, _ bool) bool { _, still := seen[uid]; return !still })
	}()
	for uid, job := range ssn.Jobs {
		known, waits := conditions.Find(&job.PodGroup.Status, PartiallyBound), waitsInPart(job)
		short := p.groupFellShort(ssn.Jobs, job)
		if short != nil {
			p.ofGroup[uid] = true
			waits = waitsForMore(job)
		}
		_, before := p.memory.seen[uid]
		if known == nil && !waits && !before {
			continue
		}
		if short == nil {
			short = p.fellShort(job)
		}
		if short != nil {
			seen[uid] = sinceOr(p.memory.seen, uid, time.Now())
			if waits {
				p.first[uid] = p.goFirst(ssn, job)
			}
		}
		switch {
		case short == nil && known != nil:
			conditions.Drop(&job.PodGroup.Status, PartiallyBound)
			continue
		case short != nil && before && isBinding(job): // the gang is still partially bound
			underWay[uid] = sinceOr(p.memory.binding, uid, time.Now())
			continue
		case short == nil || !waits:
			continue
		}
		message := p.messageOf(job, short)
		if first, reported := p.memory.reported[uid]; known != nil && reported && first == (p.first[uid] != nil) {
			message = known.Message
		}
		reportPartiallyBound(ssn, job, message)
		p.memory.reported[uid] = p.first[uid] != nil
		p.partiallyBound[uid] = seen[uid]
		if job.IsPending() {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
		}
	}
}

func sinceOr(times map[api.JobID]time.Time, uid api.JobID, now time.Time) time.Time {
	if since, known := times[uid]; known {
		return since
	}
	return now
}

// isPartiallyBound reports whether the gang is partially bound and none of its tasks has been placed in this session.
func (p *plugin) isPartiallyBound(job *api.JobInfo) bool {
	_, ok := p.partiallyBound[job.UID]
	return ok && (waitsInPart(job) || p.ofGroup[job.UID] && waitsForMore(job))
}

// waitsInPart reports whether some members of the gang hold nodes, others are pending, and no member is being bound.
func waitsInPart(job *api.JobInfo) bool { return waitsForMore(job) && holdsNodes(job) }

// waitsForMore reports whether members of the gang are pending and no member is being bound.
func waitsForMore(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Pending]) > 0 && !isBinding(job)
}

func holdsNodes(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running]) > 0
}

// fellShort returns by how much a gang that holds nodes falls short of the minimum that it was bound for; nil if the
// gang meets that minimum.
func (p *plugin) fellShort(job *api.JobInfo) error {
	if !holdsNodes(job) || p.mayLack(job) {
		return nil
	}
	short := binding.ShortOfBound(job)
	if short == nil || binding.BoundFor(job) < binding.LeastMembers(job.PodGroup) {
		return nil
	}
	return short
}

// messageOf returns the message of the condition PartiallyBound for a partially bound gang.
func (p *plugin) messageOf(job *api.JobInfo, short error) string {
	next := "its pods whose bind was interrupted are scheduled first"
	if p.first[job.UID] == nil {
		next = "its pending pods are scheduled in the usual order, because pods whose bind was interrupted, with requests no larger than then, do not complete it"
	}
	what := "Gang"
	if p.ofGroup[job.UID] {
		what = "Gang group"
	}
	return fmt.Sprintf("%s is partially bound (%v); %s", what, short, next)
}

// reportPartiallyBound sets the condition PartiallyBound of the gang's PodGroup, and records an event. It records the
// event in each session, because the last one may have been lost or have expired.
func reportPartiallyBound(ssn *framework.Session, job *api.JobInfo, message string) {
	if conditions.Set(&job.PodGroup.Status, ssn.UID, PartiallyBound, partiallyBoundReason, message) {
		klog.InfoS("Gang is partially bound", "gang", job.UID, "message", message)
	}
	ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, partiallyBoundReason, message)
}

// OnSessionClose remembers the members that are being bound. It evicts gangs that have been partially bound for longer
// than evictAfter and that this session could not complete. It also evicts partially bound gangs whose other members have
// been in a transaction for longer than evictAfter, for example because a rollback is stuck.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.rememberBinding(ssn)
	if p.evictAfter <= 0 {
		return
	}
	for uid, since := range p.partiallyBound {
		if job, found := ssn.Jobs[uid]; found && time.Since(since) >= p.evictAfter && p.isPartiallyBound(job) {
			p.evict(ssn, job)
		}
	}
	for uid, since := range p.memory.binding {
		if job, found := ssn.Jobs[uid]; found && time.Since(since) >= p.evictAfter {
			p.evict(ssn, job)
		}
	}
}

// evict evicts the members of the gang that hold nodes. If the gang's group is partially bound, it also evicts members
// of the other gangs that hold nodes.
func (p *plugin) evict(ssn *framework.Session, job *api.JobInfo) {
	tasks, ofGroup := boundTasks(job), p.ofGroup[job.UID]
	if ofGroup {
		for _, other := range p.boundWith(ssn.Jobs, job) {
			tasks = append(tasks, boundTasks(other)...)
		}
	}
	reason := evictionReason(ofGroup, p.evictAfter)
	for _, task := range tasks {
		if err := ssn.Evict(task, reason); err != nil {
			klog.ErrorS(err, "Evicting a member of a partially bound gang failed", "pod", klog.KObj(task.Pod))
		}
	}
}

// evictionReason returns why members of a gang, or of a gang group with ofGroup, are evicted after limit.
func evictionReason(ofGroup bool, limit time.Duration) string {
	if ofGroup {
		return fmt.Sprintf("the gang group was partially bound for more than %s (%s)", limit, evictAfter)
	}
	return fmt.Sprintf("the gang was partially bound for more than %s (%s)", limit, evictAfter)
}

// boundTasks returns the gang's tasks that are bound or running.
func boundTasks(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, status := range []api.TaskStatus{api.Bound, api.Running} {
		for _, task := range job.TaskStatusIndex[status] {
			tasks = append(tasks, task)
		}
	}
	return tasks
}
