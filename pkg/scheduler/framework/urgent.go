// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// UrgentFn reports whether the job holds, or has been promised, resources that are of no use before it is placed.
type UrgentFn func(job *api.JobInfo) bool

// UrgentTasksFn returns the tasks of the job that have been promised resources; none if the job is not urgent.
type UrgentTasksFn func(job *api.JobInfo) map[api.TaskID]bool

// Urgency is the place of a job among those that allocate places first.
type Urgency struct {
	// Rank is lower for the jobs of a plugin that stands earlier in the conf.
	Rank int
	// Only are the tasks that go first; nil for all that the job's minimum needs.
	Only map[api.TaskID]bool
}

// AddUrgentFn adds the plugin's say on which jobs allocate places first: before the order of queues, and of jobs in them,
// comes into force. It moves that job alone, up to its minimum, and within its queue's limits; what else the job and its
// queue have waits for its turn. The order of jobs stays what it is: preempt and reclaim choose their victims by it.
func (ssn *Session) AddUrgentFn(plugin string, fn UrgentFn) {
	ssn.addUrgency(plugin, func(job *api.JobInfo) (Urgency, bool) { return Urgency{}, fn(job) })
}

// AddUrgentTasksFn is AddUrgentFn for some tasks of a job: its other tasks wait for its turn.
func (ssn *Session) AddUrgentTasksFn(plugin string, fn UrgentTasksFn) {
	ssn.addUrgency(plugin, func(job *api.JobInfo) (Urgency, bool) {
		tasks := fn(job)
		return Urgency{Only: tasks}, len(tasks) > 0
	})
}

func (ssn *Session) addUrgency(plugin string, fn func(*api.JobInfo) (Urgency, bool)) {
	rank := len(ssn.urgent)
	ssn.urgent = append(ssn.urgent, func(job *api.JobInfo) (urgency Urgency, urgent bool) {
		defer func() {
			if p := recover(); p != nil {
				klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			}
		}()
		urgency, urgent = fn(job)
		urgency.Rank = rank
		return urgency, urgent
	})
}

// Urgency returns the job's place among those that go first, as the first plugin in conf order that wants it there has it;
// false if none does.
func (ssn *Session) Urgency(job *api.JobInfo) (Urgency, bool) {
	for _, fn := range ssn.urgent {
		if urgency, urgent := fn(job); urgent {
			return urgency, true
		}
	}
	return Urgency{}, false
}

// Urgent reports whether a plugin wants the job placed first.
func (ssn *Session) Urgent(job *api.JobInfo) bool {
	_, urgent := ssn.Urgency(job)
	return urgent
}
