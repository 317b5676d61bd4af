// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// The annotations of a PodGroup that the actions read.
const (
	// DelayAnnotation is how long a pending pod of the gang waits before pods are evicted for the gang, as a Go duration. It
	// has no effect if it is shorter than the argument Delay.
	DelayAnnotation = "preemption.volcano-prebind.io/delay"
	// CheckpointAnnotation is when the gang last saved its work, in RFC 3339. An eviction loses only the work since then.
	CheckpointAnnotation = "preemption.volcano-prebind.io/last-checkpoint"
)

// delayed returns why no pods are evicted for the gang yet; empty if its pending pods with requests have waited long enough.
// least is the delay by the action's argument.
func delayed(job *api.JobInfo, pending *state.Pending, least time.Duration, now time.Time) string {
	delay := least
	if text := job.PodGroup.Annotations[DelayAnnotation]; text != "" {
		own, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Sprintf("annotation %s is %q, want a duration such as 5m", DelayAnnotation, brief.Part(text))
		}
		delay = max(delay, own)
	}
	if delay == 0 {
		return ""
	}
	var youngest time.Time // the creation of a pod is set by the API server, not by its user
	for _, tasks := range pending.Tasks {
		for _, task := range tasks {
			if created := task.Pod.CreationTimestamp.Time; created.After(youngest) {
				youngest = created
			}
		}
	}
	if until := youngest.Add(delay); now.Before(until) {
		return fmt.Sprintf("no pods are evicted for the gang before %s, because of a delay of %s", until.UTC().Format(time.RFC3339), delay)
	}
	return ""
}

// savedAt returns when the job last saved its work; zero if that is unknown. A time in the future, or a text that is no
// time, counts as unknown.
func savedAt(job *api.JobInfo, now time.Time) time.Time {
	if job.PodGroup == nil || job.PodGroup.Annotations[CheckpointAnnotation] == "" {
		return time.Time{}
	}
	saved, err := time.Parse(time.RFC3339, job.PodGroup.Annotations[CheckpointAnnotation])
	if err != nil || saved.After(now) {
		return time.Time{}
	}
	return saved
}

// lost returns how many seconds of work an eviction of the task loses: the time since its pod has started, or since its gang
// has saved its work.
func lost(task *api.TaskInfo, saved, now time.Time) float64 {
	started := task.Pod.Status.StartTime
	if started == nil {
		return 0
	}
	since := started.Time
	if saved.After(since) {
		since = saved
	}
	return max(0, now.Sub(since).Seconds())
}
