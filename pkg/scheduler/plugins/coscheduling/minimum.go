// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Satisfied is the type of the condition of a PodGroup with match policy once-satisfied whose gang has reached its
// minimum once. The scheduler reads the condition after a restart.
const Satisfied scheduling.PodGroupConditionType = gangs.SatisfiedCondition

// Whole is the type of the condition of a PodGroup whose gang, and all gangs of its gang group, have reached their
// minima once. It is for all match policies except once-satisfied. If a gang with this condition lacks members, they
// were lost after they were bound. Without the condition, a crash may have left them unbound.
const Whole scheduling.PodGroupConditionType = gangs.WholeCondition

// wholeReasons has, by match policy, the reason of the condition Whole.
var wholeReasons = map[gangs.MatchPolicy]string{gangs.OnlyWaiting: gangs.WholeOnlyWaiting, gangs.WaitingAndRunning: "WaitingAndRunning"}

// noteSatisfied sets the condition Satisfied or Whole of each gang that has reached its minimum, if all gangs of its
// gang group have reached theirs. It removes both conditions when no member of the gang is bound or running. A gang
// whose members were all lost then starts from the beginning (https://github.com/koordinator-sh/koordinator/issues/2244).
func (s *session) noteSatisfied() {
	for _, g := range s.gangs {
		lost := alive(g.JobInfo) == 0
		if lost || g.MatchPolicy != gangs.OnceSatisfied {
			conditions.Drop(&g.PodGroup.Status, Satisfied)
		}
		if lost || g.MatchPolicy == gangs.OnceSatisfied {
			conditions.Drop(&g.PodGroup.Status, Whole)
		}
		g.satisfied = conditions.Find(&g.PodGroup.Status, Satisfied) != nil || g.ended()
	}
	for _, g := range s.gangs {
		if g.satisfied || alive(g.JobInfo) == 0 || !s.groupReached(g) {
			continue
		}
		if g.MatchPolicy == gangs.OnceSatisfied {
			conditions.Set(&g.PodGroup.Status, s.ssn.UID, Satisfied, "GangSatisfied",
				fmt.Sprintf("Minimum reached (%s); further pods are bound individually", brief.Count(alive(g.JobInfo), "pod")))
		} else if known := conditions.Find(&g.PodGroup.Status, Whole); known == nil || known.Reason != wholeReasons[g.MatchPolicy] {
			conditions.Set(&g.PodGroup.Status, s.ssn.UID, Whole, wholeReasons[g.MatchPolicy],
				fmt.Sprintf("Minimum was reached once, with %s on nodes; new pods are bound by match policy %s", brief.Count(alive(g.JobInfo), "pod"), g.MatchPolicy))
		}
	}
	for _, g := range s.gangs {
		g.satisfied = g.satisfied || conditions.Find(&g.PodGroup.Status, Satisfied) != nil
		if g.satisfied && g.IsPending() {
			g.PodGroup.Status.Phase = scheduling.PodGroupInqueue // a satisfied gang was admitted before, and need not be admitted again
		}
	}
}

// groupReached reports whether the gang and all other gangs of its gang group have reached their minima, now or earlier.
func (s *session) groupReached(g *gang) bool {
	if len(g.Group) == 0 {
		return g.reached()
	}
	for _, name := range g.Group {
		if other := s.gangs[api.JobID(name.String())]; other == nil || !other.satisfied && conditions.Find(&other.PodGroup.Status, Whole) == nil && !other.reached() {
			return false
		}
	}
	return true
}

// reached reports whether enough members are bound, running or succeeded for the gang's minimum, and at least one of
// them is bound or running.
func (g *gang) reached() bool {
	return alive(g.JobInfo) > 0 && binding.MinimumBound(g.JobInfo)
}

// alive returns the number of members that are bound or running. Terminating members do not count: their replacements belong to
// another run of the gang.
func alive(job *api.JobInfo) int {
	return len(job.TaskStatusIndex[api.Bound]) + len(job.TaskStatusIndex[api.Running])
}

// ended reports whether the gang has completed and has no pending members.
func (g *gang) ended() bool {
	return g.PodGroup.Status.Phase == scheduling.PodGroupCompleted && len(g.TaskStatusIndex[api.Pending]) == 0
}

// isNewRun reports whether the pending members are a new run of a gang whose earlier members have all succeeded. A
// pending pod with the same controller as a succeeded pod belongs to the same run: the controller retries a pod, or
// the pod did not fit before. Pods without controllers are a new run if they are enough for the minimum.
func (g *gang) isNewRun() bool {
	for status := range g.TaskStatusIndex { // has no status without tasks
		if api.AllocatedStatus(status) {
			return false
		}
	}
	if len(g.TaskStatusIndex[api.Succeeded]) == 0 {
		return false
	}
	ended := map[types.UID]bool{}
	for _, task := range g.TaskStatusIndex[api.Succeeded] {
		if owner := metav1.GetControllerOfNoCopy(task.Pod); owner != nil {
			ended[owner.UID] = true
		}
	}
	owned := len(g.TaskStatusIndex[api.Pending]) > 0
	for _, task := range g.TaskStatusIndex[api.Pending] {
		owner := metav1.GetControllerOfNoCopy(task.Pod)
		if owner != nil && ended[owner.UID] {
			return false
		}
		owned = owned && owner != nil
	}
	return owned || g.waiting() >= g.minimum
}

// inPart reports whether the gang or its gang group is only partially bound, for example because the scheduler crashed
// while binding it. Bound members then count for the minimum.
func (g *gang) inPart() bool {
	return alive(g.JobInfo) > 0 && conditions.Find(&g.PodGroup.Status, Whole) == nil && binding.BoundFor(g.JobInfo) >= binding.LeastMembers(g.PodGroup)
}

// count returns which members count for the gang's minimum in this session, in addition to the pending members.
func (g *gang) count() binding.Count {
	switch {
	case g.satisfied:
		return binding.CountSatisfied
	case g.isNewRun() || g.MatchPolicy == gangs.OnlyWaiting && !g.inPart():
		return binding.CountNone
	default:
		return binding.CountBound
	}
}

// setMinimum sets MinAvailable of the gang. This is the number of members that must be placed or already have a node
// before the session binds the gang.
func (g *gang) setMinimum() {
	ready := g.ReadyTaskNum()
	switch g.count() {
	case binding.CountSatisfied:
		g.MinAvailable = min(g.minimum, ready)
		g.dropMinima()
	case binding.CountNone:
		if len(g.TaskStatusIndex[api.Pending]) > 0 {
			g.MinAvailable = g.minimum + ready
			g.addRoles()
		}
	}
	if g.Mode == gangs.Strict && !g.satisfied {
		g.MinAvailable = max(g.MinAvailable, ready+g.waiting())
	}
}

// waiting returns the number of pending members without scheduling gates.
func (g *gang) waiting() (n int32) {
	for _, task := range g.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			n++
		}
	}
	return n
}

// dropMinima removes the minima of the gang's roles and sub-groups.
func (g *gang) dropMinima() {
	g.TaskMinAvailable, g.TaskMinAvailableTotal, g.MinSubJobs = map[string]int32{}, 0, map[api.SubJobGID]int32{}
}

// addRoles raises the minimum of each role by the number of its members that have a node or have succeeded. Upstream
// counts these members for the minimum, but for this gang only pending members count. TaskMinAvailableTotal stays
// unchanged, because upstream checks the minima of roles only if this total does not exceed MinAvailable.
func (g *gang) addRoles() {
	for status, tasks := range g.TaskStatusIndex {
		if !api.AllocatedStatus(status) && status != api.Succeeded {
			continue
		}
		for _, task := range tasks {
			if _, ok := g.TaskMinAvailable[task.TaskRole]; ok {
				g.TaskMinAvailable[task.TaskRole]++
			}
		}
	}
}
