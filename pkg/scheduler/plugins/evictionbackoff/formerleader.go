// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// openClaims brings the claims up to date when a session opens.
func (p *plugin) openClaims(ssn *framework.Session) {
	if !p.adopted {
		p.adoptClaims(ssn)
		p.adopted = true
	}
	p.closeClaims(ssn)
}

// adoptClaims makes the claims of gangs for which a former leader has evicted pods that still exist. It is called in the first
// session. All pending members of such a gang are nominees, with their current requests: which of them the former leader had
// pipelined is not known.
func (p *plugin) adoptClaims(ssn *framework.Session) {
	gangs := map[types.UID]*api.JobInfo{}
	for _, job := range ssn.Jobs {
		if job.PodGroup != nil {
			gangs[job.PodGroup.UID] = job
		}
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Releasing] {
			at, podGroup, evicted := conditions.EvictedAt(task.Pod)
			if gang := gangs[podGroup]; evicted && podGroup != "" && gang != nil {
				p.adopt(gang, task, at)
			}
		}
	}
}

// adopt adds the victim, which was evicted at the given time, to the gang's claim.
func (p *plugin) adopt(gang *api.JobInfo, victim *api.TaskInfo, at time.Time) {
	c := p.claims[gang.UID]
	if c == nil {
		c = newClaim()
		c.addNominees([]*api.JobInfo{gang}, api.Pending)
		p.claims[gang.UID] = c
	}
	c.addVictim(victim, at)
}
