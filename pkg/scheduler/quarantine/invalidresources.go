// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// rootQueue is upstream's name of the root of the queue hierarchy.
const rootQueue = "root"

// checkObjects corrects overflowing amounts in the snapshot, and leaves out gangs that are faulty or too large. A gang
// that holds resources is not left out. checkObjects returns the verdicts by gang. by records which unchanged gangs are
// known not to be too large; nil if the snapshot is not for a session.
func checkObjects(snapshot *api.ClusterInfo, by *snapshot.Copies) map[api.JobID]Verdict {
	queues := correctQueues(snapshot)
	gangs := map[api.JobID]Verdict{}
	for id, job := range snapshot.Jobs {
		if message, bad := queues[job.Queue]; bad {
			gangs[id] = Verdict{InvalidResources, message}
		}
		if by.WithinBounds(id, job) {
			// The gang is unchanged since a check found it not too large.
		} else if wrong := tooLarge(job); wrong != "" {
			gangs[id] = Verdict{ObjectTooLarge, brief.Text(wrong)}
		} else {
			by.NoteWithinBounds(id, job)
		}
		if needed := job.PodGroup.Spec.MinResources; needed != nil && !isWithinLimits(*needed) {
			if wrong := negative("spec.minResources", *needed); len(wrong) > 0 && gangs[id].Reason != ObjectTooLarge {
				gangs[id] = Verdict{InvalidResources, brief.First(wrong)}
			}
			corrected := withinLimits(*needed, 1)
			job.PodGroup.Spec.MinResources = &corrected
		}
	}
	for id, message := range beyondKinds(snapshot, gangs) {
		gangs[id] = Verdict{ObjectTooLarge, brief.Text(message)}
	}
	for id := range gangs {
		if !holdsResources(snapshot.Jobs[id]) {
			delete(snapshot.Jobs, id)
		}
	}
	return gangs
}

// correctQueues corrects the queues of the snapshot, and returns a description of each faulty queue's faults.
func correctQueues(snapshot *api.ClusterInfo) map[api.QueueID]string {
	queues := map[api.QueueID]string{}
	lost := withoutRoot(snapshot)
	for id, queue := range snapshot.Queues {
		spec, wrong := correctedQueue(&queue.Queue.Spec)
		if message, is := lost[id]; is {
			if spec == nil {
				own := queue.Queue.Spec
				spec = &own
			}
			spec.Parent, wrong = "", append(wrong, message)
		}
		if spec == nil {
			continue
		}
		own := *queue.Queue // upstream's snapshot shares the Queue with the cache
		own.Spec = *spec
		queue.Queue = &own
		if len(wrong) > 0 {
			queues[id] = "queue " + queue.Name + ": " + brief.First(wrong)
		}
	}
	return queues
}

// correctedQueue returns a copy of the spec with limited amounts; nil if the spec needs no change. It also returns a
// text for each negative amount.
func correctedQueue(spec *scheduling.QueueSpec) (*scheduling.QueueSpec, []string) {
	if isWithinLimits(spec.Capability, spec.Deserved, spec.Guarantee.Resource) {
		return nil, nil
	}
	wrong := append(append(negative("spec.capability", spec.Capability), negative("spec.deserved", spec.Deserved)...),
		negative("spec.guarantee.resource", spec.Guarantee.Resource)...)
	corrected := *spec
	corrected.Capability = withinLimits(spec.Capability, 1)
	corrected.Deserved = withinLimits(spec.Deserved, 1)
	corrected.Guarantee.Resource = withinLimits(spec.Guarantee.Resource, 1)
	return &corrected, wrong
}

// withoutRoot returns a text for each queue whose chain of parents does not end at the root. Upstream adds up usage
// along that chain: it loops forever on a cycle, and panics on a parent that does not exist.
func withoutRoot(snapshot *api.ClusterInfo) map[api.QueueID]string {
	lost := map[api.QueueID]string{}
	for id := range snapshot.Queues {
		at := id
		for steps := 0; at != rootQueue && at != ""; steps++ {
			queue, there := snapshot.Queues[at]
			if !there {
				lost[id] = fmt.Sprintf("spec.parent leads to queue %s, which does not exist", at)
				break
			}
			if steps == len(snapshot.Queues) {
				lost[id] = fmt.Sprintf("spec.parent is %s, which forms a cycle; it must lead to queue root", snapshot.Queues[id].Queue.Spec.Parent)
				break
			}
			at = api.QueueID(queue.Queue.Spec.Parent)
		}
	}
	return lost
}

func holdsResources(job *api.JobInfo) bool {
	for status := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) {
			return true
		}
	}
	return false
}
