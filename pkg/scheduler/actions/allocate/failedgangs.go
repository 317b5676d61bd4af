// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// failedGang names what decides whether a gang of unlike tasks fits into a set of nodes; empty when that is more than can be
// named. Of equal gangs only the first is tried in every way while nothing else is placed.
type failedGang string

// failedGang returns the name of the tasks in the scope: their classes in task order, how many of them are needed, of which
// roles, and in which queue. Gangs that have members, a topology, nominated nodes, or verdicts of their own have none, nor has
// any where a plugin looks at more of a task than its class.
func (s *subJobRun) failedGang() failedGang {
	if s.finder.ReadsAnything() || len(s.members.nodes) > 0 || s.job.ContainsSubJobPolicy() || s.subJob.WithNetworkTopology() || s.sameClass(s.tasks) == len(s.tasks) {
		return "" // of tasks that are all alike the first is known at once; the last condition looks at all of them
	}
	key := fmt.Appendf(nil, "%p %t %d %s %v %s", s.scope.Set, s.idleOnly, s.needed, s.job.Queue, s.neededByRole(), s.scope.ChosenBy)
	for rest := s.tasks; len(rest) > 0; {
		class, n := s.finder.Class(rest[0]), s.sameClass(rest)
		nominated := func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }
		if s.finder.PerJobBut(rest[0], s.scope.ChosenBy) || slices.ContainsFunc(rest[:n], nominated) {
			return ""
		}
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(class.Number())), uint64(n))
		rest = rest[n:]
	}
	return failedGang(key)
}

// hasFailed is true if an equal gang has fit nowhere and nothing was placed since.
func (s *solver) hasFailed(gang failedGang) bool {
	return gang != "" && s.failedGangs[gang] == s.jobsPlaced+1
}

// noteFailed notes that the gang fits nowhere.
func (s *solver) noteFailed(gang failedGang) {
	if gang != "" {
		s.failedGangs[gang] = s.jobsPlaced + 1
	}
}
