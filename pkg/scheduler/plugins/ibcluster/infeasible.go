// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// outage is how long the resources promised to a gang stay reserved after no group can hold the gang any longer. A node that is
// briefly unavailable, as when its kubelet restarts, must not cost the gang its admission. Kubernetes gives pods on a node that
// is not ready the same time.
const outage = 5 * time.Minute

// Infeasible implements framework.InfeasibilityChecker, for gangs that must be in one group and that no group could hold, even if
// all resources were released. Such a gang is admitted if its pods, like a Volcano Job's, are created only afterwards.
// Infeasible returns false if members are placed. It ignores minResources, because users may raise them.
func (p *plugin) Infeasible(ssn *framework.Session, job *api.JobInfo) bool {
	s := p.open(ssn)
	if !s.votes {
		return false
	}
	w := s.requests[job.UID]
	groups := s.groupsFor(w)
	if len(groups) == 0 || s.hasPlaced(job) {
		delete(p.holdable, job.UID)
		return false
	}
	message, known := s.noRoomForMembers(job, w, groups)
	if known && message == "" {
		p.holdable[job.UID] = time.Now()
	}
	if message == "" {
		return false
	}
	if last, held := p.holdable[job.UID]; held && time.Since(last) < outage {
		return false
	}
	s.neverFits[job.UID] = message
	return true
}

// forgetHoldable drops the records of gangs that no longer exist.
func (p *plugin) forgetHoldable(ssn *framework.Session) {
	for uid := range p.holdable {
		if ssn.Jobs[uid] == nil {
			delete(p.holdable, uid)
		}
	}
}
