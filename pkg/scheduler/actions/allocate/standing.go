// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// standing is what is known of a job from one time it is looked at to the next, so that more of it is placed without
// counting all of its tasks again.
type standing struct {
	// ready says that the job's minimum is handed over to be bound, subJobs that a sub-job's is.
	ready   bool
	subJobs map[api.SubJobID]bool
	members *members
	// tallies are of the sub-jobs' tasks to be placed.
	tallies map[api.SubJobID]*tally
}

// standingOf returns what is known of the job.
func (a *allocation) standingOf(job *api.JobInfo) *standing {
	s, ok := a.standings[job.UID]
	if !ok {
		s = &standing{subJobs: map[api.SubJobID]bool{}, members: a.membersOf(job), tallies: map[api.SubJobID]*tally{}}
		a.standings[job.UID] = s
	}
	return s
}

// advance takes in what the plan has handed over of a job that is ready. Where some of it was refused all is counted anew.
func (a *allocation) advance(job *api.JobInfo, p *plan) {
	s := a.standings[job.UID]
	for _, t := range p.attempts {
		for _, placed := range t.placed {
			switch task := placed.task; {
			case api.AllocatedStatus(task.Status):
				s.members.add(a.board.index[task.NodeName])
			case task.Status != api.Pipelined:
				delete(a.standings, job.UID)
				return
			}
			if uid := job.TaskToSubJob[placed.task.UID]; !s.subJobs[uid] && job.ContainsSubJobPolicy() && job.SubJobs[uid].IsReady() {
				s.subJobs[uid] = true
			}
		}
	}
	s.ready = a.gang
}

// jobReady asks the plugins whether the job is ready. The gang plugin counts all of the job's tasks to say so, and cannot
// change its mind by more being placed.
func (a *allocation) jobReady(job *api.JobInfo) (ready bool) {
	if s := a.standings[job.UID]; s == nil || !s.ready {
		return a.ssn.JobReady(job)
	}
	with(a.ssn, a.notGang, func() { ready = a.ssn.JobReady(job) })
	return ready
}

// subJobReady is the same for a sub-job.
func (a *allocation) subJobReady(job *api.JobInfo, subJob *api.SubJobInfo) (ready bool) {
	if !job.ContainsSubJobPolicy() {
		return a.jobReady(job)
	}
	if s := a.standings[job.UID]; s == nil || !s.subJobs[subJob.UID] {
		return a.ssn.SubJobReady(job, subJob)
	}
	with(a.ssn, a.notGang, func() { ready = a.ssn.SubJobReady(job, subJob) })
	return ready
}

// jobOrder orders jobs as the plugins do. To the gang plugin jobs that are both ready are equal.
func (a *allocation) jobOrder(l, r any) (first bool) {
	for _, job := range []any{l, r} {
		if s := a.standings[job.(*api.JobInfo).UID]; s == nil || !s.ready {
			return a.ssn.JobOrderFn(l, r)
		}
	}
	with(a.ssn, a.notGang, func() { first = a.ssn.JobOrderFn(l, r) })
	return first
}

// tiersWithout are the tiers without the named plugins.
func tiersWithout(all []conf.Tier, plugins ...string) []conf.Tier {
	var out []conf.Tier
	for _, tier := range all {
		out = append(out, conf.Tier{Plugins: slices.DeleteFunc(slices.Clone(tier.Plugins), func(o conf.PluginOption) bool {
			return slices.Contains(plugins, o.Name)
		})})
	}
	return out
}

// members are the nodes where members of a job lie.
type members struct {
	// nodes are in the order in which members came, each once.
	nodes []int32
	known map[int32]bool
	// domains are those asked about.
	domains map[*domain]presence
}

// presence says whether some of the first nodes lie in a domain.
type presence struct {
	asked int
	some  bool
}

// membersOf lists the nodes of the job's members that are placed.
func (a *allocation) membersOf(job *api.JobInfo) *members {
	m := &members{known: map[int32]bool{}, domains: map[*domain]presence{}}
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			if node, ok := a.board.index[task.NodeName]; ok {
				m.add(node)
			}
		}
	}
	return m
}

func (m *members) add(node int32) {
	if !m.known[node] {
		m.known[node] = true
		m.nodes = append(m.nodes, node)
	}
}

// in says whether a member lies in the domain. Each node is looked up once for a domain.
func (m *members) in(d *domain) bool {
	p := m.domains[d]
	for ; !p.some && p.asked < len(m.nodes); p.asked++ {
		_, p.some = d.local[m.nodes[p.asked]]
	}
	m.domains[d] = p
	return p.some
}
