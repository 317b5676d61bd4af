// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// outage is how long an admitted gang still counts as feasible after the last time when a node group could hold it. A
// node may be unavailable for a short time, for example while its kubelet restarts. By default, Kubernetes also keeps
// pods on such a node for five minutes.
const outage = 5 * time.Minute

// Infeasible implements framework.AdmissionVoter. It returns true for an admitted gang that must be in one node
// group, if no node group could hold it even if all pods ended. Such a gang is admitted if its pods are created only
// after its admission, like the pods of a Volcano Job.
//
// Infeasible returns false if members are placed. It ignores minResources, because users may set them too high.
func (s *session) Infeasible(job *api.JobInfo) bool {
	w := s.requests[job.UID]
	groups := s.groupsFor(w)
	if len(groups) == 0 || s.hasPlaced(job) {
		delete(s.memory.holdable, job.UID)
		return false
	}
	message, known := s.noRoomForMembers(job, w, groups)
	if known && message == "" {
		s.memory.holdable[job.UID] = time.Now()
	}
	if message == "" {
		return false
	}
	if last, held := s.memory.holdable[job.UID]; held && time.Since(last) < outage {
		return false
	}
	s.infeasible[job.UID] = message
	return true
}

// hasPlaced reports whether a member is placed that is not tentative.
func (s *session) hasPlaced(job *api.JobInfo) bool {
	for _, status := range placed {
		for _, task := range job.TaskStatusIndex[status] {
			if !s.tentative(job, task) {
				return true
			}
		}
	}
	return false
}

// forgetHoldable removes gangs that no longer exist from the map holdable, which has the last time when some node
// group could hold a gang.
func (p *plugin) forgetHoldable(ssn *framework.Session) {
	for uid := range p.memory.holdable {
		if ssn.Jobs[uid] == nil {
			delete(p.memory.holdable, uid)
		}
	}
}
