// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// Try makes a trial. It places the first tasks of the part together, arranged as given, and then the other tasks batch
// by batch. first is the number of the first tasks. Try also returns the classes that found no room.
func Try(s *Part, first int, arranged Arrangement) (PartResult, []*feasible.TaskClass) {
	p := newPlacer(s)
	first = min(first, len(s.Tasks))
	stopped := p.placeBatches(s.batches(s.Tasks[:first], arranged))
	tried := first
	for !stopped && !p.done && tried < len(s.Tasks) {
		n := s.attempt.Run.SameClass(s.Tasks[tried:])
		stopped = p.placeBatches([]Batch{{tasks: s.Tasks[tried : tried+n]}})
		tried += n
	}
	return p.end(p.untouched(tried)), p.blocked
}

// TryAll makes a trial that does not stop at a task that fits nowhere, although the sub-job cannot be ready without it.
func TryAll(s *Part, arranged Arrangement) PartResult {
	p := newPlacer(s)
	p.allClasses = true
	p.placeBatches(s.batches(s.Tasks, arranged))
	return p.end(nil)
}

// end asks the plugins whether the placed tasks are enough. If not, end takes the placed tasks back. rest are the tasks
// that were not tried.
func (p *placer) end(rest []*api.TaskInfo) PartResult {
	result := PartResult{Changes: p.changes, Rest: rest, hyperNode: p.hyperNode}
	switch {
	case len(p.changes.Placed) == 0:
	case p.done && !p.run.PipelineOnly || p.run.Progress.SubJobReady(p.job(), p.part.SubJob):
		result.Outcome = Ready
	case !p.part.IdleOnly && p.run.Session.SubJobPipelined(p.job(), p.part.SubJob):
		result.Outcome = Pipelined
	}
	if result.Outcome == NotPlaced {
		if len(p.changes.Placed) >= p.part.Needed {
			p.part.attempt.Found.NoteRefused()
		}
		p.noteShortfall()
		p.changes.Discard()
	}
	return result
}

// untouched returns the tasks for a later trial: tasks that were not tried, and tasks that were tried but neither
// placed nor refused. The first tasks of the part were tried; tried is their number. In a node group, tasks that found
// no room are added at the end, because a wider group may have room. The slice is not copied unless it has to be.
func (p *placer) untouched(tried int) []*api.TaskInfo {
	if len(p.changes.Placed) == tried {
		return p.part.Tasks[tried:]
	}
	var left, unfit []*api.TaskInfo
	for _, task := range p.part.Tasks[:tried] {
		switch {
		case task.Status != api.Pending || p.refused[task.UID]:
		case p.job().NodesFitErrors[task.UID] == nil:
			left = append(left, task)
		case p.part.Scope.ChosenBy != "":
			unfit = append(unfit, task)
		}
	}
	if len(left)+len(unfit) == 0 {
		return p.part.Tasks[tried:]
	}
	return slices.Concat(left, p.part.Tasks[tried:], unfit)
}
