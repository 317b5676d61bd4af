// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang group is partially bound if only some of its gangs are bound. One gang's Bindings name the group. Another
// gang lists the same group, is below its minimum and has no bound member. This other gang is completed like a
// partially bound gang.

// group is the gang group that one version of a PodGroup lists.
type group struct {
	uid     types.UID
	version string
	gangs   []gangs.Name
	id      string
}

// groupFellShort returns by how much a waiting gang falls short of its minimum while other gangs of its group hold
// nodes. It returns nil if the gang has its minimum, or if no other gang of its group holds nodes.
func (p *plugin) groupFellShort(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) error {
	if job.PodGroup == nil || len(job.TaskStatusIndex[api.Pending]) == 0 && !isBinding(job) || holdsNodes(job) {
		return nil
	}
	others := p.boundWith(jobs, job)
	if len(others) == 0 {
		return nil
	}
	if short := binding.ShortOfBound(job); short != nil {
		return fmt.Errorf("gang %s is bound, this gang has %w", others[0].UID, short)
	}
	return nil
}

// boundWith returns the other gangs of the job's group that hold nodes and were bound with this group. It leaves out
// gangs whose group was complete once.
func (p *plugin) boundWith(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) []*api.JobInfo {
	var bound []*api.JobInfo
	of := p.groupOf(job)
	for _, name := range of.gangs {
		other := jobs[api.JobID(name.String())]
		if other != nil && other != job && other.PodGroup != nil && !p.wasWhole(other) && saysBoundWith(other, of.id) {
			bound = append(bound, other)
		}
	}
	return bound
}

// groupOf returns the job's group. It parses the list of gangs only once for each version of the PodGroup, because a
// tenant's list may be long and sessions are frequent.
func (p *plugin) groupOf(job *api.JobInfo) group {
	pg := job.PodGroup
	text, ok := pg.Annotations[gangs.GroupsAnnotation]
	if !ok {
		return group{}
	}
	known, ok := p.groups[job.UID]
	if !ok {
		known = p.formerGroups[job.UID]
	}
	if known.uid != pg.UID || known.version != pg.ResourceVersion || pg.ResourceVersion == "" {
		self := gangs.Name{Namespace: job.Namespace, Name: job.Name}
		settings, _ := gangs.Read(self, 0, map[string]string{gangs.GroupsAnnotation: text}, gangs.Settings{})
		known = group{uid: pg.UID, version: pg.ResourceVersion, gangs: settings.Group, id: settings.GroupID(self)}
	}
	p.groups[job.UID] = known
	return known
}

// goFirst returns the interrupted members of the gang that are placed before all other gangs; nil for none. The gangs
// of a group are placed together, with any of their pending members. So no member goes first unless all pending members
// of the gangs below their minimum are interrupted members that complete their gangs.
func (p *plugin) goFirst(ssn *framework.Session, job *api.JobInfo) map[api.TaskID]bool {
	own := p.completing(job)
	if gangs := p.groupOf(job).gangs; len(gangs) > 1 && own != nil {
		for _, name := range gangs {
			other := ssn.Jobs[api.JobID(name.String())]
			if other != nil && !binding.MinimumBound(other) && !allIn(other, p.completing(other)) {
				return nil
			}
		}
	}
	return own
}

// allIn reports whether the set has all pending members of the gang, except members with scheduling gates.
func allIn(job *api.JobInfo, set map[api.TaskID]bool) bool {
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated && !set[uid] {
			return false
		}
	}
	return set != nil
}

// saysBoundWith reports whether a member of the gang holds a node and, according to its annotation, was bound with the
// group that has this ID.
func saysBoundWith(job *api.JobInfo, id string) bool {
	return slices.ContainsFunc(boundTasks(job), func(task *api.TaskInfo) bool { return task.Pod.Annotations[gangs.BindGroupAnnotation] == id })
}

// wasWhole reports whether the gang, together with its group, was complete once. Plugin coscheduling records this in a
// condition of the PodGroup. The condition counts only while plugin coscheduling is configured.
func (p *plugin) wasWhole(job *api.JobInfo) bool {
	status := &job.PodGroup.Status
	return p.coscheduling && (conditions.Find(status, gangs.SatisfiedCondition) != nil || conditions.Find(status, gangs.WholeCondition) != nil)
}

// mayLack reports whether the gang may be below its minimum without being partially bound. That is so if the gang was
// complete once, and either need not be complete again, or does not count its present members for its minimum.
func (p *plugin) mayLack(job *api.JobInfo) bool {
	status := &job.PodGroup.Status
	whole := conditions.Find(status, gangs.WholeCondition)
	return p.coscheduling && (conditions.Find(status, gangs.SatisfiedCondition) != nil || whole != nil && whole.Reason == gangs.WholeOnlyWaiting)
}
