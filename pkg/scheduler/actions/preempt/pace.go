// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Searches for pods to evict are bounded in looks, so that equal sessions have equal results. A look checks one node for one
// member. If all checks can be cached, placing the members costs one look for each node and for each member.
const (
	// maxLooks limits the search for one gang. It takes one or two seconds where no check can be cached. The first placing of a
	// plan is always made.
	maxLooks = 200_000
	// maxSessionLooks limits all searches in a session: beyond it, no search begins. The remaining gangs have their turn in the next
	// sessions, before gangs whose search has failed.
	maxSessionLooks = maxLooks
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
	// had are the gangs whose search has failed in this round, and owed are the gangs that were postponed when the round began. The
	// round ends when no gang is owed a search. Every second session of a round searches only for these, because gangs that come
	// later could use up all looks otherwise. next are the gangs that this session has postponed, and asked all gangs that came to
	// their turn.
	had, owed, next, asked map[api.JobID]bool
	owedOnly               bool
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
	maps.DeleteFunc(p.owed, func(id api.JobID, _ bool) bool { return jobs[id] == nil || !p.asked[id] })
	if len(p.owed) == 0 {
		p.owed, p.had, p.next = p.next, map[api.JobID]bool{}, map[api.JobID]bool{}
		maps.DeleteFunc(p.owed, func(id api.JobID, _ bool) bool { return jobs[id] == nil })
	}
	maps.DeleteFunc(p.next, func(id api.JobID, _ bool) bool { return jobs[id] == nil })
	maps.DeleteFunc(p.had, func(id api.JobID, _ bool) bool { return jobs[id] == nil })
	p.owedOnly = len(p.owed) > 0 && !p.owedOnly
	p.asked, p.looks = map[api.JobID]bool{}, 0
}

// refuse returns why there is no search for the job in this session; empty if there is one.
func (p *pace) refuse(job api.JobID) string {
	p.asked[job] = true
	switch of := p.pauses[job]; {
	case of != nil && of.left >= 0:
		delete(p.owed, job)
		return givenUp
	case p.had[job] || p.owedOnly && !p.owed[job]:
		return postponed
	case p.looks > maxSessionLooks:
		if !p.owed[job] {
			p.next[job] = true
		}
		return postponed
	}
	return ""
}

// note records whether a search for the job has found pods to evict, and if not, whether it was given up.
func (p *pace) note(job api.JobID, found, gaveUp bool) {
	delete(p.owed, job)
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
