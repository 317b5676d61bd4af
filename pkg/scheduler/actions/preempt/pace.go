// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Searches for pods to evict are bounded in looks, so that equal sessions have equal results. A look checks one node for one
// member. If all checks can be cached, placing the members costs one look for each node and for each member.
const (
	// maxLooks limits the search for one gang. It takes one or two seconds where no check can be cached. The first placing of a
	// plan is always made.
	maxLooks = 200_000
	// maxSessionLooks limits all searches in a session. The remaining gangs have their turn in the next sessions, before gangs
	// whose search has failed.
	maxSessionLooks = 3 * maxLooks
	// longestPause is how many sessions a gang waits at most whose search was given up. The pause begins with one session and
	// doubles each time.
	longestPause = 64
)

const (
	givenUp   = "the search for pods to evict was given up, because it takes too long; it is repeated later"
	postponed = "the search for pods to evict follows in a later cycle"
)

// pace is what the pace of searches depends on, from session to session.
type pace struct {
	// pauses are the pauses of gangs whose search was given up.
	pauses map[api.JobID]*pause
	// had are the gangs whose search has failed in this round. A round ends with the first session that postpones no search.
	// postponed reports whether this session has postponed one.
	had       map[api.JobID]bool
	postponed bool
	// looks are those of this session.
	looks int
}

// pause is a number of sessions, of which some are left.
type pause struct{ length, left int }

// begin begins a session with these jobs.
func (p *pace) begin(jobs map[api.JobID]*api.JobInfo) {
	if p.pauses == nil {
		p.pauses = map[api.JobID]*pause{}
	}
	for id, of := range p.pauses {
		if of.left--; jobs[id] == nil {
			delete(p.pauses, id)
		}
	}
	if !p.postponed {
		p.had = map[api.JobID]bool{}
	}
	p.postponed, p.looks = false, 0
}

// refuse returns why there is no search for the job in this session; empty if there is one.
func (p *pace) refuse(job api.JobID) string {
	switch of := p.pauses[job]; {
	case of != nil && of.left >= 0:
		return givenUp
	case p.had[job]:
		return postponed
	case p.looks > maxSessionLooks:
		p.postponed = true
		return postponed
	}
	return ""
}

// note records whether a search for the job has found pods to evict, and if not, whether it was given up.
func (p *pace) note(job api.JobID, found, gaveUp bool) {
	if !found {
		p.had[job] = true
	}
	if !gaveUp {
		delete(p.pauses, job)
		return
	}
	of := p.pauses[job]
	if of == nil {
		of = &pause{}
		p.pauses[job] = of
	}
	of.length = min(max(1, 2*of.length), longestPause)
	of.left = of.length
}

// seesPods reports whether it depends on the pods on other nodes which nodes take the pod.
func seesPods(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0
}
