// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// progress is how far jobs have come, from one turn to the next, so that more of a job is placed without counting all of its tasks
// again. It asks the plugins what is ready.
type progress struct {
	ssn   *framework.Session
	index *nodeset.Index
	// gangDecides reports whether the gang plugin decides on readiness, and notGang are the session's tiers without it.
	gangDecides bool
	notGang     []conf.Tier
	of          map[api.JobID]*jobProgress
}

// jobProgress is how far a job has come.
type jobProgress struct {
	// ready is true once the job's minimum is handed over to be bound, subJobs once a sub-job's is.
	ready   bool
	subJobs map[api.SubJobID]bool
	members *memberNodes
	// counts are of the sub-jobs' tasks to be placed.
	counts map[api.SubJobID]*classCounts
}

func newProgress(ssn *framework.Session, index *nodeset.Index) *progress {
	option, found := ssn.PluginOption(gang.PluginName)
	return &progress{
		ssn: ssn, index: index, notGang: ssn.TiersWithout(gang.PluginName), of: map[api.JobID]*jobProgress{},
		gangDecides: found && option.EnabledJobReady != nil && *option.EnabledJobReady,
	}
}

// job returns how far the job has come.
func (p *progress) job(job *api.JobInfo) *jobProgress {
	known, ok := p.of[job.UID]
	if !ok {
		known = &jobProgress{members: p.memberNodesOf(job)}
		p.of[job.UID] = known
	}
	return known
}

// forget forgets how far the job has come: it has no other turn, or all is counted again.
func (p *progress) forget(job *api.JobInfo) { delete(p.of, job.UID) }

// advance takes in the tasks of a ready job that were handed over. Where some were refused all is counted again.
func (p *progress) advance(job *api.JobInfo, placed []*api.TaskInfo) {
	of := p.of[job.UID]
	for _, task := range placed {
		switch {
		case api.AllocatedStatus(task.Status):
			if node, ok := p.index.Number(task.NodeName); ok {
				of.members.add(node)
			}
		case task.Status != api.Pipelined:
			p.forget(job)
			return
		}
		if uid := job.TaskToSubJob[task.UID]; !of.subJobs[uid] && job.ContainsSubJobPolicy() && job.SubJobs[uid].IsReady() {
			note(&of.subJobs, uid, true) // of a gang that waits no sub-job is placed
		}
	}
	of.ready = p.gangDecides
}

// minimumPlaced reports whether the job's minimum was handed over in this session.
func (p *progress) minimumPlaced(job *api.JobInfo) bool {
	known := p.of[job.UID]
	return known != nil && known.ready
}

// subJobPlaced is the same for a sub-job.
func (p *progress) subJobPlaced(job *api.JobInfo, subJob *api.SubJobInfo) bool {
	known := p.of[job.UID]
	return known != nil && known.subJobs[subJob.UID]
}

// jobReady asks the plugins whether the job is ready. The gang plugin counts all of the job's tasks to say so, and cannot
// change its mind by more being placed. Where it decides, a job that is short of its minimum is ready to no plugin.
func (p *progress) jobReady(job *api.JobInfo) (ready bool) {
	if !p.minimumPlaced(job) {
		return (!p.gangDecides || job.IsReady()) && p.ssn.JobReady(job)
	}
	p.ssn.WithTiers(p.notGang, func() { ready = p.ssn.JobReady(job) })
	return ready
}

// subJobReady is the same for a sub-job.
func (p *progress) subJobReady(job *api.JobInfo, subJob *api.SubJobInfo) (ready bool) {
	if !job.ContainsSubJobPolicy() {
		return p.jobReady(job)
	}
	if !p.subJobPlaced(job, subJob) {
		return p.ssn.SubJobReady(job, subJob)
	}
	p.ssn.WithTiers(p.notGang, func() { ready = p.ssn.SubJobReady(job, subJob) })
	return ready
}

// jobOrder orders jobs as the plugins do. To the gang plugin jobs that are both ready are equal.
func (p *progress) jobOrder(l, r any) (first bool) {
	if !p.minimumPlaced(l.(*api.JobInfo)) || !p.minimumPlaced(r.(*api.JobInfo)) {
		return p.ssn.JobOrderFn(l, r)
	}
	p.ssn.WithTiers(p.notGang, func() { first = p.ssn.JobOrderFn(l, r) })
	return first
}
