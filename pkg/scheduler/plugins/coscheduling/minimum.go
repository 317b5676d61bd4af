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
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Satisfied is the type of the condition of a PodGroup whose gang has reached its minimum once. The next leader reads
// it.
const Satisfied scheduling.PodGroupConditionType = gangs.SatisfiedCondition

// Whole is the type of the condition of a PodGroup with another match policy whose gang, together with its group, has
// reached its minimum once. If such a gang lacks members now, they were lost, and not left unbound by a crash.
const Whole scheduling.PodGroupConditionType = gangs.WholeCondition

// wholeReasons are the condition's reasons.
var wholeReasons = map[gangs.MatchPolicy]string{gangs.OnlyWaiting: gangs.WholeOnlyWaiting, gangs.WaitingAndRunning: "WaitingAndRunning"}

// noteSatisfied records which gangs have reached their minimum together with their group. It removes the record when
// the gang's last member is deleted: a gang that was lost and is created again starts from the beginning
// (https://github.com/koordinator-sh/koordinator/issues/2244).
func (s *session) noteSatisfied() {
	for _, g := range s.gangs {
		lost := g.alive() == 0
		if lost || g.MatchPolicy != gangs.OnceSatisfied {
			g.dropCondition(Satisfied)
		}
		if lost || g.MatchPolicy == gangs.OnceSatisfied {
			g.dropCondition(Whole)
		}
		g.satisfied = g.hasCondition(Satisfied) || g.ended()
	}
	for _, g := range s.gangs {
		if g.satisfied || g.alive() == 0 || !s.groupReached(g) {
			continue
		}
		if g.MatchPolicy == gangs.OnceSatisfied {
			s.setCondition(g, Satisfied, "GangSatisfied",
				fmt.Sprintf("Minimum reached (%s); further pods are bound individually", brief.Count(g.alive(), "pod")))
		} else if known := g.condition(Whole); known == nil || known.Reason != wholeReasons[g.MatchPolicy] {
			s.setCondition(g, Whole, wholeReasons[g.MatchPolicy], fmt.Sprintf("Minimum was reached once, with %s on nodes", brief.Count(g.alive(), "pod")))
		}
	}
	for _, g := range s.gangs {
		g.satisfied = g.satisfied || g.hasCondition(Satisfied)
		if g.satisfied && g.IsPending() {
			g.PodGroup.Status.Phase = scheduling.PodGroupInqueue // its resources were already admitted
		}
	}
}

// groupReached reports whether the gang and all others of its group have reached their minima.
func (s *session) groupReached(g *gang) bool {
	if len(g.Group) == 0 {
		return g.reached()
	}
	for _, name := range g.Group {
		if other := s.gangs[api.JobID(name.String())]; other == nil || !other.satisfied && !other.hasCondition(Whole) && !other.reached() {
			return false
		}
	}
	return true
}

// reached reports whether enough members are placed.
func (g *gang) reached() bool {
	return g.alive() > 0 && binding.ShortOfPlaced(g.JobInfo) == nil
}

// alive returns the number of members that hold nodes. Terminating members do not count: their replacements belong to another run
// of the gang.
func (g *gang) alive() int {
	return len(g.TaskStatusIndex[api.Bound]) + len(g.TaskStatusIndex[api.Running])
}

// ended reports whether the gang has completed and no further members are expected.
func (g *gang) ended() bool {
	return g.PodGroup.Status.Phase == scheduling.PodGroupCompleted && len(g.TaskStatusIndex[api.Pending]) == 0
}

// isNewRun reports whether the waiting members are a new run of a gang whose earlier members have all succeeded. A waiting pod with the
// same controller as a pod that succeeded belongs to the same run: it is a retry, or did not fit before. Pods without controllers
// are a new run if they reach the minimum.
func (g *gang) isNewRun() bool {
	for status, tasks := range g.TaskStatusIndex {
		if api.AllocatedStatus(status) && len(tasks) > 0 {
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

// inPart reports whether the gang, or its group, is only partially bound, for example because of a crash while it was
// being bound. It is then completed together with the members that hold nodes.
func (g *gang) inPart() bool {
	return g.alive() > 0 && !g.hasCondition(Whole) && binding.BoundFor(g.JobInfo) >= binding.LeastMembers(g.PodGroup)
}

// count returns which members count for the minimum beside the waiting ones.
func (g *gang) count() binding.Count {
	switch {
	case g.satisfied:
		return binding.CountSatisfied
	case g.isNewRun() || g.MatchPolicy == gangs.OnlyWaiting && !g.inPart():
		return binding.CountNone
	default:
		return binding.CountPlaced
	}
}

// setMinimum sets the smallest number of members that the session may place the gang with.
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

// waiting returns the number of members that wait for a node and have no scheduling gates.
func (g *gang) waiting() (n int32) {
	for _, task := range g.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			n++
		}
	}
	return n
}

// dropMinima drops the minima of roles and of sub-groups.
func (g *gang) dropMinima() {
	g.TaskMinAvailable, g.TaskMinAvailableTotal, g.MinSubJobs = map[string]int32{}, 0, map[api.SubJobGID]int32{}
}

// addRoles adds, to the minima of roles, the existing members that do not count for the minimum. The total stays below
// MinAvailable, because upstream considers roles only then.
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
