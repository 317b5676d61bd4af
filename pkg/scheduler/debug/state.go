// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// State is the stage of a gang between its creation and its end.
type State string

// The states of a gang. A gang is in exactly one state at a time.
const (
	// Waiting means that the gang is not admitted.
	Waiting State = "waiting"
	// Admitted means that the gang may be placed. No resources are reserved for it.
	Admitted State = "admitted"
	// TimedOut means that the gang's waiting time has passed, and that the gang waits for the end of its backoff.
	TimedOut State = "timed_out"
	// InFlight means that members of the gang are in a bind transaction.
	InFlight State = "in_flight"
	// Partial means that members have nodes, but fewer than the gang's minimum.
	Partial State = "partial"
	// Bound means that the gang's minimum has nodes, but fewer members than the minimum run.
	Bound State = "bound"
	// Running means that the gang's minimum runs, or has succeeded.
	Running State = "running"
	// Ended means that all members of the gang have succeeded or failed.
	Ended State = "ended"
)

// States lists all states of a gang.
var States = []State{Waiting, Admitted, TimedOut, InFlight, Partial, Bound, Running, Ended}

// stateOf returns the state of a gang in the cache. timedOut reports whether, according to the last session, the gang
// is in a backoff after its waiting time.
func stateOf(job *api.JobInfo, timedOut bool) State {
	count := func(statuses ...api.TaskStatus) (n int) {
		for _, status := range statuses {
			n += len(job.TaskStatusIndex[status])
		}
		return n
	}
	switch bound := count(api.Bound, api.Running, api.Releasing); {
	case len(job.Tasks) > 0 && count(api.Succeeded, api.Failed) == len(job.Tasks):
		return Ended
	case count(api.Binding, api.Allocated) > 0:
		return InFlight
	case bound > 0 && job.PodGroup != nil && has(job, running):
		return Running
	case bound > 0 && job.PodGroup != nil && has(job, binding.CountsAsBound):
		return Bound
	case bound > 0:
		return Partial
	case timedOut:
		return TimedOut
	case job.PodGroup != nil && job.PodGroup.Status.Phase == scheduling.PodGroupInqueue:
		return Admitted
	default:
		return Waiting
	}
}

// has reports whether the members for which `counts` returns true reach the gang's minimum.
func has(job *api.JobInfo, counts func(*api.TaskInfo) bool) bool {
	return binding.ShortOf(job, &job.PodGroup.Spec, counts) == nil
}

func running(task *api.TaskInfo) bool {
	return task.Status == api.Running || task.Status == api.Succeeded
}
