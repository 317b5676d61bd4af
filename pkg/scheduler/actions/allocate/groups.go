// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

const (
	// maxNarrower bounds how many groups of each narrower level are tried before the candidate itself.
	maxNarrower = 3
	// maxNarrowerVerdicts bounds instead, of each level, the verdicts for tasks that are placed one by one, of which numbers
	// do not tell which groups hold them.
	maxNarrowerVerdicts = 20_000
	// maxNeedShapes bounds of how many shapes a gang's need is known. Where members have claims of their own, each is a
	// shape; room for some of them is room for fewer than all, so groups are still never left out wrongly.
	maxNeedShapes = 8
	// maxFurther bounds how many tasks besides those needed are counted where any will do.
	maxFurther = 64
)

// need is what must be placed for a gang to be ready: so many tasks, and of each shape that is known.
type need struct {
	shapes []*shape
	// counts is how many tasks of each shape there are: those needed, or when choice is set, all that may be taken.
	counts map[*shape]int
	// further is how many tasks, of shapes that are not known, ask for as much as those of a shape that is.
	further map[*shape]int
	// beyond is how many tasks of each shape there are behind those that are counted.
	beyond map[*shape]int
	total  int
	// share is what those needed ask for together, in dominant shares; of any choice and of unknown shapes on the average of
	// those that are counted.
	share float64
	// choice says that there are more tasks than are needed; unknown that there are tasks whose shape is not known.
	choice, unknown bool
}

// candidate is a node group a gang may be placed in.
type candidate struct {
	group *topology.Group
	// room is what the group takes now of the shape that it takes most of, spare what is left when what is needed is placed,
	// both in shares.
	room, spare float64
	score       float64
}

// placeInGroups places the job's minimum whole in one of the groups: the best by the plugins' scores of those that hold it
// now, else of those that hold it once what is being released is free. A gang that only prefers groups and fits into none
// now is spread over the fewest, before it waits.
func (a *allocation) placeInGroups(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups) plan {
	n, err := a.needOf(job, sheet)
	if err != nil {
		job.JobFitErrors = err.Error()
		return plan{}
	}
	ways := []func(now bool) plan{func(now bool) plan { return a.tryGroups(job, sheet, groups, n, now) }}
	if !groups.Required {
		ways = append(ways, func(now bool) plan { return a.spread(job, sheet, groups, n, now) })
	}
	return a.tryWays(job, ways...)
}

// needOf finds what the job's minimum lacks at least, and of which tasks that may be.
func (a *allocation) needOf(job *api.JobInfo, sheet *sheet) (*need, error) {
	n := &need{counts: map[*shape]int{}, further: map[*shape]int{}, beyond: map[*shape]int{}, total: a.leastOf(job, sheet)}
	left := 0
	for _, subJob := range sheet.subJobs {
		tasks := sheet.tasks[subJob.UID]
		left += len(tasks)
		if further := min(a.lacking(job, subJob, 1), len(tasks)) + maxFurther; len(tasks) > further {
			a.countBeyond(job, subJob.UID, tasks, further, n)
			tasks = tasks[:further]
		}
		for _, task := range tasks {
			if len(n.shapes) == maxNeedShapes && n.counts[a.kindOf(task).shape] == 0 {
				n.unknown = true
				if i := slices.IndexFunc(n.shapes, func(s *shape) bool { return s.task.InitResreq.Equal(task.InitResreq, api.Zero) }); i >= 0 {
					n.further[n.shapes[i]]++
				}
				continue
			}
			s, err := a.shapeOf(task)
			if err != nil {
				return nil, err
			}
			if n.counts[s] == 0 {
				n.shapes = append(n.shapes, s)
			}
			n.counts[s]++
		}
	}
	n.choice = n.total < left
	slices.SortStableFunc(n.shapes, func(l, r *shape) int {
		return cmp.Compare(a.dominantShare(r.task), a.dominantShare(l.task))
	})
	counted := 0
	for _, s := range n.shapes {
		counted += n.counts[s]
		n.share += float64(n.counts[s]) * a.dominantShare(s.task)
	}
	if counted > 0 {
		n.share *= float64(n.total) / float64(counted)
	}
	return n, nil
}

// leastOf is how many tasks the job's minimum lacks at least: of each policy the smallest sub-jobs of those that may be made
// ready, and no fewer than the job lacks as a whole. A job that is ready takes any sub-job further.
func (a *allocation) leastOf(job *api.JobInfo, sheet *sheet) int {
	if !job.ContainsSubJobPolicy() {
		subJob := job.SubJobs[job.DefaultSubJobID()]
		return min(a.lacking(job, subJob, 1), len(sheet.tasks[subJob.UID]))
	}
	jobReady := a.jobReady(job)
	all, step := 0, 0
	lack := map[api.SubJobGID][]int{}
	for _, subJob := range sheet.subJobs {
		tasks := len(sheet.tasks[subJob.UID])
		lacking := min(a.lacking(job, subJob, 1), tasks)
		all += tasks
		if step == 0 || lacking < step {
			step = lacking
		}
		if !jobReady && !a.subJobReady(job, subJob) {
			lack[subJob.GID] = append(lack[subJob.GID], lacking)
		}
	}
	if jobReady {
		return step
	}
	ready := a.readySubJobs(job)
	sum := 0
	for policy, lacking := range lack {
		slices.Sort(lacking)
		for _, l := range lacking[:min(len(lacking), max(0, int(job.MinSubJobs[policy]-ready[policy])))] {
			sum += l
		}
	}
	return max(sum, step, min(a.jobLacks(job), all))
}

// tryGroups tries the candidates that may hold the job, the best first.
func (a *allocation) tryGroups(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, n *need, now bool) plan {
	candidates := a.candidates(job, groups, n, now)
	first := a.ssn.ScoredBeforeTrial()
	best := -1
	for i := range candidates {
		c := &candidates[i]
		p := a.tryGroup(job, sheet, groups, c.group, n, now)
		if p.outcome == misfit {
			continue
		}
		if first {
			return p
		}
		score, err := a.ssn.NodeGroupScore(job, a.trialOf(c, n, p.placement()))
		p.discard(job)
		if err != nil {
			klog.ErrorS(err, "Scoring a node group failed, it is left out", "podGroup", klog.KRef(job.Namespace, job.Name), "group", c.group.Path())
			continue
		}
		c.score = score
		if best < 0 || c.score > candidates[best].score {
			best = i
		}
	}
	if best < 0 {
		return plan{}
	}
	return a.tryGroup(job, sheet, groups, candidates[best].group, n, now)
}

func (a *allocation) trialOf(c *candidate, n *need, placement map[api.TaskID]string) *framework.NodeGroupTrial {
	fill := 0.0
	if c.room > 0 {
		fill = min(1, n.share/c.room)
	}
	return &framework.NodeGroupTrial{Group: c.group, Fill: fill, Placement: placement}
}

// candidates lists the groups that may hold what is needed, the best by the scores that are known before a trial first.
func (a *allocation) candidates(job *api.JobInfo, groups *framework.NodeGroups, n *need, now bool) []candidate {
	var out []candidate
	for _, group := range groups.Candidates {
		d := a.groupDomain(group, nil)
		if a.refuted(d) && (now || !a.releasesFor(job, d)) {
			continue
		}
		c := a.weigh(group, n)
		if now && c.spare < 0 {
			continue
		}
		score, err := a.ssn.NodeGroupScore(job, a.trialOf(&c, n, nil))
		if err != nil {
			klog.ErrorS(err, "Scoring a node group failed, it is left out", "podGroup", klog.KRef(job.Namespace, job.Name), "group", group.Path())
			continue
		}
		c.score = score
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(l, r candidate) int {
		return cmp.Or(cmp.Compare(r.score, l.score), cmp.Compare(l.group.Path(), r.group.Path()))
	})
	return out
}

// releasesFor says whether waiting in the domain may help the job: something is being released there, or members of it wait
// already.
func (a *allocation) releasesFor(job *api.JobInfo, d *domain) bool {
	return len(job.TaskStatusIndex[api.Pipelined]) > 0 || a.board.releases(d)
}

// weigh finds what the group takes now. Its spare is negative when it cannot take what is needed.
func (a *allocation) weigh(group *topology.Group, n *need) candidate {
	c := candidate{group: group}
	d := a.groupDomain(group, nil)
	fits := 0
	for _, s := range n.shapes {
		capacity, share := a.capacity(s, d), a.dominantShare(s.task)
		c.room = max(c.room, float64(capacity)*share)
		fits += min(capacity, n.counts[s]+n.beyond[s])
		if capacity < n.counts[s] && !n.choice {
			c.spare = -1
			return c
		}
		c.spare += float64(max(capacity-n.counts[s], 0)) * share
	}
	for s, count := range n.beyond {
		if n.counts[s] == 0 {
			fits += min(a.capacity(s, d), count)
		}
	}
	if n.choice && fits < n.total && !n.unknown || a.together(n, d) < n.total {
		c.spare = -1
	}
	return c
}

// together bounds how many of the needed tasks the domain takes now, of all shapes together. Where each shape asks for as
// much as the next in everything, a node takes no more of them than of the one it takes the most of.
func (a *allocation) together(n *need, d *domain) int {
	if n.unknown || len(n.beyond) > 0 || len(n.shapes) < 2 || !n.nested() {
		return n.total // tasks of other shapes may do, or one shape says it all
	}
	most := make([]int32, len(d.nodes))
	for _, s := range n.shapes {
		for place, copies := range a.roomOf(s, d).copies {
			most[place] = max(most[place], copies)
		}
	}
	sum := 0
	for _, copies := range most {
		sum += int(copies)
	}
	return sum
}

// nested says whether each shape, the largest first, asks for no less than the next of everything.
func (n *need) nested() bool {
	for i := 1; i < len(n.shapes); i++ {
		if !n.shapes[i].task.InitResreq.LessEqual(n.shapes[i-1].task.InitResreq, api.Zero) {
			return false
		}
	}
	return true
}

// tryGroup places the job in the narrowest group in the candidate that holds it, else in the candidate, in the fewest of
// its groups.
func (a *allocation) tryGroup(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, group *topology.Group, n *need, now bool) plan {
	a.inside = groups.Plugin
	defer func() { a.inside = "" }()
	for _, g := range append(a.narrower(job, group, n), group) {
		p := a.placeOn(job, sheet, a.groupSite(g, nil), now)
		a.observe(p.outcome.String())
		if p.outcome != misfit {
			return p
		}
	}
	return plan{}
}

// narrower lists groups in the group that may hold what is needed: the narrowest level first, in a level the best by score,
// then the one with the least to spare, and of each level a few.
func (a *allocation) narrower(job *api.JobInfo, group *topology.Group, n *need) []*topology.Group {
	byLevel := map[int][]candidate{}
	var collect func(g *topology.Group)
	collect = func(g *topology.Group) {
		for _, child := range g.Children {
			if a.refuted(a.groupDomain(child, nil)) {
				continue
			}
			if c := a.weigh(child, n); c.spare >= 0 {
				if score, err := a.ssn.NodeGroupScore(job, a.trialOf(&c, n, nil)); err == nil {
					c.score = score
				}
				byLevel[child.Level] = append(byLevel[child.Level], c)
				collect(child)
			}
		}
	}
	collect(group)
	var out []*topology.Group
	for _, level := range slices.Backward(slices.Sorted(maps.Keys(byLevel))) {
		fits := byLevel[level]
		slices.SortStableFunc(fits, func(l, r candidate) int {
			return cmp.Or(cmp.Compare(r.score, l.score), cmp.Compare(l.spare, r.spare), cmp.Compare(l.group.Path(), r.group.Path()))
		})
		verdicts := 0
		for i, c := range fits {
			verdicts += n.total * len(c.group.Nodes)
			if i >= maxNarrower && !(n.coupled() && verdicts <= maxNarrowerVerdicts) {
				break
			}
			out = append(out, c.group)
		}
	}
	return out
}

// coupled says whether a task is needed that is placed one by one.
func (n *need) coupled() bool {
	return slices.ContainsFunc(n.shapes, func(s *shape) bool { return s.layers.coupled })
}

// spread places a gang that no candidate holds over several: in one of the groups around them, the narrowest level first, else
// over the fewest groups of the widest, and over nodes in none last.
func (a *allocation) spread(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, n *need, now bool) plan {
	around := groups.Candidates
	for inner := func(g *topology.Group) bool { return g.Parent != nil }; slices.ContainsFunc(around, inner); {
		around = parents(around)
		for _, c := range a.candidates(job, &framework.NodeGroups{Candidates: around}, n, now) {
			p := a.placeOn(job, sheet, a.groupSite(c.group, nil), now)
			a.observe(p.outcome.String())
			if p.outcome != misfit {
				return p
			}
		}
	}
	all := &topology.Group{Level: -1, Children: around}
	a.board.groups[all] = a.board.everything
	return a.placeOn(job, sheet, a.groupSite(all, nil), now)
}

// parents lists the groups right around the groups, which are sorted by path; those with none around them stay.
func parents(groups []*topology.Group) []*topology.Group {
	out := slices.Clone(groups)
	for i, g := range out {
		if g.Parent != nil {
			out[i] = g.Parent
		}
	}
	return slices.Compact(out)
}

// String names the outcome as metrics do.
func (o outcome) String() string {
	return [...]string{misfit: "misfit", waiting: "waiting", ready: "ready"}[o]
}
