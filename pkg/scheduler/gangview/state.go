// SPDX-License-Identifier: Apache-2.0

package gangview

import (
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// State is where a gang is on its way.
type State string

// The states. A gang is in one of them.
const (
	// Waiting: it is not admitted.
	Waiting State = "waiting"
	// Admitted: it may be placed, and resources of its queue are reserved for it.
	Admitted State = "admitted"
	// TimedOut: its waiting time has passed, and it waits out its backoff.
	TimedOut State = "timed_out"
	// InFlight: members are in a bind transaction.
	InFlight State = "in_flight"
	// Partial: members have nodes, fewer than its minimum asks for.
	Partial State = "partial"
	// Bound: its minimum has nodes, and does not run yet.
	Bound State = "bound"
	// Running: its minimum runs, or has succeeded.
	Running State = "running"
	// Ended: all of its members have succeeded or failed.
	Ended State = "ended"
)

// States are all there are.
var States = []State{Waiting, Admitted, TimedOut, InFlight, Partial, Bound, Running, Ended}

// stateOf returns the state of a gang in the cache. sentBack reports whether the gang waits out a backoff according to the
// last session.
func stateOf(job *api.JobInfo, sentBack bool) State {
	count := func(statuses ...api.TaskStatus) (n int) {
		for _, status := range statuses {
			n += len(job.TaskStatusIndex[status])
		}
		return n
	}
	switch placed := count(api.Bound, api.Running, api.Releasing); {
	case len(job.Tasks) > 0 && count(api.Succeeded, api.Failed) == len(job.Tasks):
		return Ended
	case count(api.Binding, api.Allocated) > 0:
		return InFlight
	case placed > 0 && job.PodGroup != nil && has(job, running):
		return Running
	case placed > 0 && job.PodGroup != nil && has(job, binding.Placed):
		return Bound
	case placed > 0:
		return Partial
	case sentBack:
		return TimedOut
	case job.PodGroup != nil && job.PodGroup.Status.Phase == scheduling.PodGroupInqueue:
		return Admitted
	default:
		return Waiting
	}
}

// has reports whether the members that count are enough.
func has(job *api.JobInfo, counts func(*api.TaskInfo) bool) bool {
	return binding.ShortOf(job, &job.PodGroup.Spec, counts) == nil
}

func running(task *api.TaskInfo) bool {
	return task.Status == api.Running || task.Status == api.Succeeded
}
