// SPDX-License-Identifier: Apache-2.0

package allocate

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
	if s.run.Finder.ReadsAnything() || len(s.attempt.Members.Nodes) > 0 || s.attempt.Job.ContainsSubJobPolicy() || s.part.subJob.WithNetworkTopology() || s.run.SameClass(s.part.tasks) == len(s.part.tasks) {
		return "" // of tasks that are all alike the first is known at once; the last condition looks at all of them
	}
	key := fmt.Appendf(nil, "%p %t %d %s %v %s", s.part.scope.Set, s.part.idleOnly, s.part.needed, s.attempt.Job.Queue, s.part.neededByRole(), s.part.scope.ChosenBy)
	for rest := s.part.tasks; len(rest) > 0; {
		class, n := s.run.Finder.Class(rest[0]), s.run.SameClass(rest)
		nominated := func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }
		if s.run.Finder.PerJobBut(rest[0], s.part.scope.ChosenBy) || slices.ContainsFunc(rest[:n], nominated) {
			return ""
		}
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(class.Number())), uint64(n))
		rest = rest[n:]
	}
	return string(key)
}
