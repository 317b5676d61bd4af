// SPDX-License-Identifier: Apache-2.0

package state

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Progress is how far jobs have come in the session. It is kept from one attempt to place a job to the next, so that further
// tasks are placed without counting all tasks of the job again. Progress asks the plugins which jobs are ready.
type Progress struct {
	ssn   *framework.Session
	index *nodeset.Index
	// GangDecides reports whether the conf lets upstream's gang plugin decide which jobs are ready. NotGang are the
	// session's tiers without upstream's gang plugin.
	GangDecides bool
	NotGang     []conf.Tier
	// taskOrder are the tiers whose plugins may order tasks by other criteria than priority.
	taskOrder []conf.Tier
	of        map[api.JobID]*JobProgress
}

// JobProgress is how far a job has come in the session.
type JobProgress struct {
	// ready is set once the job's minimum is handed over to be bound. subJobs has the sub-jobs whose minimum is handed
	// over.
	ready   bool
	subJobs map[api.SubJobID]bool
	Members *MemberNodes
	// counts are the numbers of tasks to be placed of each class, by sub-job.
	counts map[api.SubJobID]*classCounts
}

func newProgress(ssn *framework.Session, index *nodeset.Index) *Progress {
	option, found := ssn.PluginOption(gang.PluginName)
	return &Progress{
		ssn: ssn, index: index, NotGang: ssn.Signers.TiersWithout(ssn.Tiers, gang.PluginName), taskOrder: ssn.Signers.TaskOrderTiers(ssn.Tiers), of: map[api.JobID]*JobProgress{},
		GangDecides: found && ssn.Signers.IsUpstreams(gang.PluginName) && option.EnabledJobReady != nil && *option.EnabledJobReady,
	}
}

// Job returns the progress of the job.
func (p *Progress) Job(job *api.JobInfo) *JobProgress {
	known, ok := p.of[job.UID]
	if !ok {
		known = &JobProgress{Members: memberNodesOf(p.index, job)}
		p.of[job.UID] = known
	}
	return known
}

// Forget drops the progress of the job, because the job is not tried again, or everything is to be counted again.
func (p *Progress) Forget(job *api.JobInfo) { delete(p.of, job.UID) }

// Advance adds tasks of a ready job that were handed over to be bound. If binding refused some of them, the job's
// progress is dropped, so that all tasks are counted again.
func (p *Progress) Advance(job *api.JobInfo, placed []*api.TaskInfo) {
	of := p.of[job.UID]
	for _, task := range placed {
		switch {
		case api.AllocatedStatus(task.Status):
			if node, ok := p.index.Number(task.NodeName); ok {
				of.Members.add(node)
			}
		case task.Status != api.Pipelined:
			p.Forget(job)
			return
		}
		if uid := job.TaskToSubJob[task.UID]; !of.subJobs[uid] && job.ContainsSubJobPolicy() && job.SubJobs[uid].IsReady() {
			setIn(&of.subJobs, uid, true) // setIn creates the map for the first ready sub-job
		}
	}
	of.ready = p.GangDecides
}

// MinimumPlaced reports whether the job's minimum was handed over in this session.
func (p *Progress) MinimumPlaced(job *api.JobInfo) bool {
	known := p.of[job.UID]
	return known != nil && known.ready
}

// subJobPlaced reports whether the sub-job's minimum was handed over in this session.
func (p *Progress) subJobPlaced(job *api.JobInfo, subJob *api.SubJobInfo) bool {
	known := p.of[job.UID]
	return known != nil && known.subJobs[subJob.UID]
}

// JobReady reports whether the plugins call the job ready. The gang plugin counts all of the job's tasks for its answer.
// Once the minimum is placed, its answer stays true, so it is not called again. If the gang plugin decides, a job that
// is short of its minimum is not ready, whatever other plugins say.
func (p *Progress) JobReady(job *api.JobInfo) (ready bool) {
	if !p.MinimumPlaced(job) {
		return (!p.GangDecides || job.IsReady()) && p.ssn.JobReady(job)
	}
	p.ssn.WithTiers(p.NotGang, func() { ready = p.ssn.JobReady(job) })
	return ready
}

// SubJobReady reports whether the plugins call the sub-job ready.
func (p *Progress) SubJobReady(job *api.JobInfo, subJob *api.SubJobInfo) (ready bool) {
	if !job.ContainsSubJobPolicy() {
		return p.JobReady(job)
	}
	if !p.subJobPlaced(job, subJob) {
		return p.ssn.SubJobReady(job, subJob)
	}
	p.ssn.WithTiers(p.NotGang, func() { ready = p.ssn.SubJobReady(job, subJob) })
	return ready
}

// JobOrder reports whether job l goes before job r by the plugins. The gang plugin is not called for two jobs that are
// both ready, because it treats ready jobs as equal.
func (p *Progress) JobOrder(l, r any) (first bool) {
	if !p.MinimumPlaced(l.(*api.JobInfo)) || !p.MinimumPlaced(r.(*api.JobInfo)) {
		return p.ssn.JobOrderFn(l, r)
	}
	p.ssn.WithTiers(p.NotGang, func() { first = p.ssn.JobOrderFn(l, r) })
	return first
}

// setIn sets the key's value in the map, which it creates if it is nil.
func setIn[K comparable, V any](values *map[K]V, key K, value V) {
	if *values == nil {
		*values = map[K]V{}
	}
	(*values)[key] = value
}
