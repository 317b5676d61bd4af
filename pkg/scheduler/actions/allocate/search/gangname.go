// SPDX-License-Identifier: Apache-2.0

package search

import (
	"encoding/binary"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// gangName names what decides whether a gang of unlike tasks fits into the scope: their classes in task order, how many of them are
// needed, of which roles, and in which queue. Of equal gangs only the first is tried in every way while nothing else is placed. The name is
// empty where that is more than can be named. Gangs that have members, a topology, nominated nodes, or verdicts of their own have none, nor has
// any where a plugin looks at more of a task than its class.
func (s *partSearch) gangName() string {
	if s.run.Finder.ReadsAnything() || len(s.attempt.Members.Nodes) > 0 || s.attempt.Job.ContainsSubJobPolicy() || s.part.SubJob.WithNetworkTopology() || s.run.SameClass(s.part.Tasks) == len(s.part.Tasks) {
		return "" // of tasks that are all alike the first is known at once; the last condition looks at all of them
	}
	key := fmt.Appendf(nil, "%p %t %d %s %v %s", s.part.Scope.Set, s.part.IdleOnly, s.part.Needed, s.attempt.Job.Queue, s.part.NeededByRole(), s.part.Scope.ChosenBy)
	for rest := s.part.Tasks; len(rest) > 0; {
		class, n := s.run.Finder.Class(rest[0]), s.run.SameClass(rest)
		nominated := func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }
		if s.run.Finder.PerJobBut(rest[0], s.part.Scope.ChosenBy) || slices.ContainsFunc(rest[:n], nominated) {
			return ""
		}
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(class.Number())), uint64(n))
		rest = rest[n:]
	}
	return string(key)
}
