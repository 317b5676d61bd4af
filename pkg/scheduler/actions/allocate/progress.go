// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// progress is how far a job has come, from one turn to the next, so that more of it is placed without counting all of its tasks
// again.
type progress struct {
	// ready is true once the job's minimum is handed over to be bound, subJobs once a sub-job's is.
	ready   bool
	subJobs map[api.SubJobID]bool
	members *memberNodes
	// counts are of the sub-jobs' tasks to be placed.
	counts map[api.SubJobID]*classCounts
}

// progressOf returns how far the job has come.
func (s *solver) progressOf(job *api.JobInfo) *progress {
	p, ok := s.progress[job.UID]
	if !ok {
		p = &progress{members: s.memberNodesOf(job)}
		s.progress[job.UID] = p
	}
	return p
}

// advance takes in what the result has handed over of a job that is ready. Where some of it was refused all is counted anew.
func (s *solver) advance(job *api.JobInfo, result *jobResult) {
	p := s.progress[job.UID]
	for _, t := range result.trials {
		for _, placed := range t.placed {
			switch task := placed.task; {
			case api.AllocatedStatus(task.Status):
				if node, ok := s.index.Number(task.NodeName); ok {
					p.members.add(node)
				}
			case task.Status != api.Pipelined:
				delete(s.progress, job.UID)
				return
			}
			if uid := job.TaskToSubJob[placed.task.UID]; !p.subJobs[uid] && job.ContainsSubJobPolicy() && job.SubJobs[uid].IsReady() {
				p.noteSubJob(uid)
			}
		}
	}
	p.ready = s.gangDecides
}

func (p *progress) noteSubJob(uid api.SubJobID) {
	if p.subJobs == nil { // of a gang that waits no sub-job is placed
		p.subJobs = map[api.SubJobID]bool{}
	}
	p.subJobs[uid] = true
}

// jobReady asks the plugins whether the job is ready. The gang plugin counts all of the job's tasks to say so, and cannot
// change its mind by more being placed. Where it decides, a job that is short of its minimum is ready to no plugin.
func (s *solver) jobReady(job *api.JobInfo) (ready bool) {
	if p := s.progress[job.UID]; p == nil || !p.ready {
		return (!s.gangDecides || job.IsReady()) && s.ssn.JobReady(job)
	}
	s.ssn.WithTiers(s.notGang, func() { ready = s.ssn.JobReady(job) })
	return ready
}

// subJobReady is the same for a sub-job.
func (s *solver) subJobReady(job *api.JobInfo, subJob *api.SubJobInfo) (ready bool) {
	if !job.ContainsSubJobPolicy() {
		return s.jobReady(job)
	}
	if p := s.progress[job.UID]; p == nil || !p.subJobs[subJob.UID] {
		return s.ssn.SubJobReady(job, subJob)
	}
	s.ssn.WithTiers(s.notGang, func() { ready = s.ssn.SubJobReady(job, subJob) })
	return ready
}

// jobOrder orders jobs as the plugins do. To the gang plugin jobs that are both ready are equal.
func (s *solver) jobOrder(l, r any) (first bool) {
	for _, job := range []any{l, r} {
		if p := s.progress[job.(*api.JobInfo).UID]; p == nil || !p.ready {
			return s.ssn.JobOrderFn(l, r)
		}
	}
	s.ssn.WithTiers(s.notGang, func() { first = s.ssn.JobOrderFn(l, r) })
	return first
}

// memberNodes are the nodes where members of a job lie.
type memberNodes struct {
	// nodes are in the order in which members came, each once.
	nodes []int32
	known map[int32]bool
	// sets are those asked about.
	sets map[*nodeset.Set]presence
}

// presence is whether one of the first nodes, so many of which were asked about, lies in a set.
type presence struct {
	asked int
	some  bool
}

// memberNodesOf lists the nodes of the job's members that are placed.
func (s *solver) memberNodesOf(job *api.JobInfo) *memberNodes {
	m := &memberNodes{}
	if len(job.TaskStatusIndex[api.Pending]) == len(job.Tasks) {
		return m
	}
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			if node, ok := s.index.Number(task.NodeName); ok {
				m.add(node)
			}
		}
	}
	return m
}

func (m *memberNodes) add(node int32) {
	if !m.known[node] {
		if m.known == nil { // of a gang that waits there is no member anywhere
			m.known = map[int32]bool{}
		}
		m.known[node] = true
		m.nodes = append(m.nodes, node)
	}
}

// in is true if a member lies in the set. Each node is looked up once for a set.
func (m *memberNodes) in(set *nodeset.Set) bool {
	if m.sets == nil {
		m.sets = map[*nodeset.Set]presence{}
	}
	p := m.sets[set]
	for ; !p.some && p.asked < len(m.nodes); p.asked++ {
		p.some = set.Has(m.nodes[p.asked])
	}
	m.sets[set] = p
	return p.some
}
