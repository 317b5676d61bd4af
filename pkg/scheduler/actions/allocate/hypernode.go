// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// plan is how a job's tasks are placed: an attempt per sub-job, kept in the session until it is discarded or committed.
type plan struct {
	outcome  outcome
	attempts []*attempt
	// rest is what sub-jobs of which something was placed have left to be placed.
	rest map[api.SubJobID][]*api.TaskInfo
	// hyperNode is where the job was placed and subJobs where its sub-jobs were, for jobs that choose among HyperNodes.
	hyperNode string
	subJobs   map[api.SubJobID]string
	// former are the sub-jobs' HyperNodes before.
	former map[api.SubJobID]string
	score  float64
}

func (p *plan) discard(job *api.JobInfo) {
	for _, t := range slices.Backward(p.attempts) {
		t.discard()
	}
	for uid, hyperNode := range p.former {
		job.SubJobs[uid].AllocatedHyperNode = hyperNode
	}
	p.attempts = nil
}

func (p *plan) commit(job *api.JobInfo) {
	for _, t := range p.attempts {
		t.commit(job)
	}
}

func (p *plan) keep() {
	for _, t := range p.attempts {
		t.keep()
	}
}

// placement are the nodes of the plan's tasks.
func (p *plan) placement() map[api.TaskID]string {
	nodes := map[api.TaskID]string{}
	for _, t := range p.attempts {
		t.addNodes(nodes)
	}
	return nodes
}

// decide writes down the HyperNodes the job was placed in, which its PodGroup shows and later tasks keep to.
func (p *plan) decide(ssn *framework.Session, job *api.JobInfo) {
	if p.hyperNode == "" {
		return
	}
	ssn.MarkJobDirty(job.UID)
	job.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(job.AllocatedHyperNode, p.hyperNode)
	for uid, hyperNode := range p.subJobs {
		subJob := job.SubJobs[uid]
		subJob.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(subJob.AllocatedHyperNode, hyperNode)
	}
}

// placeOn places the job's tasks on the site until the job is ready, if backfill can place the rest of its minimum. With now
// only idle resources count.
func (a *allocation) placeOn(job *api.JobInfo, sheet *sheet, st site, now bool) plan {
	return a.withBestEffort(job, now, func() plan { return a.placeRequests(job, sheet, st, now) })
}

// placeRequests places the job's tasks that ask for resources.
func (a *allocation) placeRequests(job *api.JobInfo, sheet *sheet, st site, now bool) plan {
	if job.ContainsHardTopology() || job.ContainsSubJobPolicy() {
		return a.placeInHyperNodes(job, sheet, st, now)
	}
	uid := job.DefaultSubJobID()
	b := a.placeTasks(job, job.SubJobs[uid], sheet.tasks[uid], st, now)
	p := plan{outcome: b.outcome, rest: map[api.SubJobID][]*api.TaskInfo{uid: b.rest}}
	if b.outcome == misfit {
		return p
	}
	p.attempts = []*attempt{b.attempt}
	if subJob := job.SubJobs[uid]; b.outcome == ready && subJob.IsSoftTopologyMode() {
		p.former = map[api.SubJobID]string{uid: subJob.AllocatedHyperNode}
		subJob.AllocatedHyperNode = b.hyperNode
	}
	return p
}

// placeInHyperNodes tries the job in the HyperNodes that the plugins allow, gradient by gradient, and makes the best trial
// of the first gradient with one again: one that is ready before one that waits, then the highest score, then the name.
func (a *allocation) placeInHyperNodes(job *api.JobInfo, sheet *sheet, st site, now bool) plan {
	top := a.ssn.HyperNodes[vcframework.ClusterTopHyperNode]
	for _, gradient := range a.ssn.HyperNodeGradientForJobFn(job, top) {
		if len(gradient) == 1 { // there is nothing to choose
			if p := a.placeSubJobs(job, sheet, gradient[0], st, now); p.outcome != misfit {
				return p
			}
			continue
		}
		best := ""
		var bestPlan plan
		for _, hyperNode := range byName(gradient) {
			p := a.placeSubJobs(job, sheet, hyperNode, st, now)
			p.discard(job)
			if p.outcome != misfit && (best == "" || p.betterThan(&bestPlan)) {
				best, bestPlan = hyperNode.Name, p
			}
		}
		if best != "" {
			return a.placeSubJobs(job, sheet, a.ssn.HyperNodes[best], st, now)
		}
	}
	return plan{}
}

func (p *plan) betterThan(other *plan) bool {
	return cmp.Or(cmp.Compare(p.outcome, other.outcome), cmp.Compare(p.score, other.score)) > 0
}

// placeSubJobs places the job's sub-jobs in the HyperNode, in order, until the job is ready. A sub-job that finds no room
// may be kept out by one before it that could lie elsewhere, so it comes first in another try.
func (a *allocation) placeSubJobs(job *api.JobInfo, from *sheet, hyperNode *api.HyperNodeInfo, st site, now bool) plan {
	first := map[api.SubJobID]int{}
	for try := 1; ; try++ {
		p, blocked := a.trySubJobs(job, from, first, hyperNode, st, now)
		if p.outcome != misfit || blocked == "" || first[blocked] > 0 || try > maxRearranged {
			return p
		}
		first[blocked] = try
	}
}

// trySubJobs tries the sub-jobs in order, those with the highest number in first before others. It also returns the first
// one that found no room.
func (a *allocation) trySubJobs(job *api.JobInfo, from *sheet, first map[api.SubJobID]int, hyperNode *api.HyperNodeInfo, st site, now bool) (p plan, blocked api.SubJobID) {
	job.ResetFitErr()
	p = plan{rest: map[api.SubJobID][]*api.TaskInfo{}, hyperNode: hyperNode.Name, subJobs: map[api.SubJobID]string{}, former: map[api.SubJobID]string{}}
	lacking, placed := a.jobLacks(job), 0
	for pending := a.pending(from, first); !pending.Empty(); {
		subJob := pending.Pop().(*api.SubJobInfo)
		tasks, again := p.rest[subJob.UID]
		if !again {
			tasks = from.tasks[subJob.UID]
		}
		b, chosen, score := a.placeSubJob(job, subJob, tasks, hyperNode, st, now)
		if b.outcome == misfit {
			if blocked == "" && first[subJob.UID] == 0 {
				blocked = subJob.UID
			}
			continue
		}
		p.attempts = append(p.attempts, b.attempt)
		p.rest[subJob.UID] = b.rest
		placed += len(b.placed)
		p.score += score
		if _, ok := p.former[subJob.UID]; !ok {
			p.former[subJob.UID] = subJob.AllocatedHyperNode
		}
		subJob.AllocatedHyperNode = a.ssn.HyperNodes.GetLCAHyperNode(subJob.AllocatedHyperNode, chosen)
		p.subJobs[subJob.UID] = subJob.AllocatedHyperNode
		if placed >= lacking && a.jobReady(job) {
			break
		}
		if len(b.rest) > 0 {
			pending.Push(subJob)
		}
	}
	switch {
	case len(p.attempts) == 0:
	case a.jobReady(job):
		p.outcome = ready
	case !now && a.ssn.JobPipelined(job):
		p.outcome = waiting
	}
	if p.outcome == misfit {
		p.discard(job)
	}
	return p, blocked
}

// placeSubJob places the sub-job in the best of the HyperNodes in hyperNode that the plugins allow it.
func (a *allocation) placeSubJob(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, hyperNode *api.HyperNodeInfo, st site, now bool) (band, string, float64) {
	for _, gradient := range a.ssn.HyperNodeGradientForSubJobFn(subJob, hyperNode) {
		if len(gradient) == 1 { // there is nothing to choose
			name := gradient[0].Name
			_, score := a.bestHyperNode(subJob, map[string]outcome{name: ready})
			if b := a.placeTasks(job, subJob, tasks, a.hyperNodeSite(name, st), now); b.outcome != misfit {
				return b, name, score
			}
			continue
		}
		outcomes := map[string]outcome{}
		for _, candidate := range byName(gradient) {
			b := a.placeTasks(job, subJob, tasks, a.hyperNodeSite(candidate.Name, st), now)
			if b.outcome == misfit {
				continue
			}
			b.discard()
			outcomes[candidate.Name] = b.outcome
		}
		if len(outcomes) == 0 {
			continue
		}
		chosen, score := a.bestHyperNode(subJob, outcomes)
		return a.placeTasks(job, subJob, tasks, a.hyperNodeSite(chosen, st), now), chosen, score
	}
	return band{rest: tasks}, "", 0
}

// hyperNodeSite is the part of the site in the HyperNode.
func (a *allocation) hyperNodeSite(name string, st site) site {
	d := a.cut(a.board.hyperNode(a.ssn, name), a.within)
	if st.tree != nil {
		return a.groupSite(st.tree, d)
	}
	return site{domain: d}
}

// bestHyperNode chooses among HyperNodes that hold the sub-job: one where it is ready before one where it waits, then the
// highest sum of the plugins' scores, then the first name.
func (a *allocation) bestHyperNode(subJob *api.SubJobInfo, outcomes map[string]outcome) (string, float64) {
	candidates := map[string][]*api.NodeInfo{}
	var names []string
	for name := range outcomes {
		candidates[name] = a.ssn.RealNodesList[name]
		names = append(names, name)
	}
	slices.Sort(names)
	scores := map[string]float64{}
	byPlugin, err := a.ssn.HyperNodeOrderMapFn(subJob, candidates)
	if err != nil {
		klog.ErrorS(err, "Scoring HyperNodes failed, they count as 0", "subJob", subJob.UID)
	} else {
		for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
			for name, score := range byPlugin[plugin] {
				scores[name] += score
			}
		}
	}
	best := slices.MaxFunc(names, func(l, r string) int {
		return cmp.Or(cmp.Compare(outcomes[l], outcomes[r]), cmp.Compare(scores[l], scores[r]), cmp.Compare(r, l))
	})
	return best, scores[best]
}

func byName(hyperNodes []*api.HyperNodeInfo) []*api.HyperNodeInfo {
	return slices.SortedFunc(slices.Values(hyperNodes), func(l, r *api.HyperNodeInfo) int { return cmp.Compare(l.Name, r.Name) })
}

// resolveTierNames puts the tier that has the name in place of names of tiers, in the session's PodGroup, and makes the
// sub-jobs anew, which keep a copy of their topology.
func resolveTierNames(ssn *framework.Session, job *api.JobInfo) {
	podGroup := job.PodGroup.Clone()
	topologies := []*scheduling.NetworkTopologySpec{podGroup.Spec.NetworkTopology}
	for _, policy := range podGroup.Spec.SubGroupPolicy {
		topologies = append(topologies, policy.NetworkTopology)
	}
	for _, topology := range topologies {
		if topology == nil || topology.HighestTierName == "" || topology.HighestTierAllowed != nil {
			continue
		}
		tier, ok := ssn.HyperNodeTierNameMap[topology.HighestTierName]
		if !ok {
			klog.V(2).InfoS("No tier has the name that the PodGroup asks for", "podGroup", klog.KRef(job.Namespace, job.Name),
				"highestTierName", topology.HighestTierName)
			continue
		}
		topology.HighestTierAllowed, topology.HighestTierName = &tier, ""
	}
	allocated := map[api.SubJobID]string{}
	for uid, subJob := range job.SubJobs {
		allocated[uid] = subJob.AllocatedHyperNode
	}
	job.SetPodGroup(podGroup)
	job.MinAvailable = binding.LeastMembers(podGroup) // as in the snapshot
	for uid, subJob := range job.SubJobs {
		subJob.AllocatedHyperNode = allocated[uid]
	}
}

// namesTiers says whether the PodGroup names a tier instead of giving its number.
func namesTiers(job *api.JobInfo) bool {
	names := func(t *scheduling.NetworkTopologySpec) bool {
		return t != nil && t.HighestTierName != "" && t.HighestTierAllowed == nil
	}
	return names(job.PodGroup.Spec.NetworkTopology) || slices.ContainsFunc(job.PodGroup.Spec.SubGroupPolicy,
		func(policy scheduling.SubGroupPolicySpec) bool { return names(policy.NetworkTopology) })
}

// lowestHyperNode is the HyperNode of the lowest tier that holds all placed members of the job; empty when none does or
// none is placed. Upstream finds it for jobs whose sub-jobs have a topology of their own only.
func lowestHyperNode(ssn *framework.Session, job *api.JobInfo) string {
	nodes := sets.New[string]()
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) {
			for _, task := range tasks {
				nodes.Insert(task.NodeName)
			}
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	for _, tier := range ssn.HyperNodesTiers {
		for _, name := range sets.List(ssn.HyperNodesSetByTier[tier]) {
			if name != vcframework.ClusterTopHyperNode && ssn.RealNodesSet[name].IsSuperset(nodes) {
				return name
			}
		}
	}
	return ""
}
