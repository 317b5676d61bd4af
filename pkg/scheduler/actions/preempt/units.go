// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"math"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// unit is the smallest set of pods that is evicted together: one pod, or all pods that a gang's minimum needs (core).
type unit struct {
	tasks []*api.TaskInfo
	// nodes are the numbers of the tasks' nodes, in the order of tasks.
	nodes []int32
	cost  cost
	// spare are the units of the other pods of a core's gang, which are evicted whenever the core is. core is the core of
	// the gang of a spare pod; nil for other units.
	spare []*unit
	core  *unit
	// partial reports whether the job has other pods on nodes that may not go.
	partial bool
	// elastic is the gang of the pods if it has more pods than its minimum needs; nil for other gangs.
	elastic *elastic
	// onNode is set for extra pods: how many of the gang's pods on the pod's node may be evicted, counting the pod itself.
	onNode int
}

// extra reports whether the unit is one pod of an elastic gang that may be evicted in place of a spare pod. The pod may be in the core,
// too; a plan has one of the two.
func (u *unit) extra() bool { return u.onNode > 0 }

// elastic is a gang that has more pods than its minimum needs.
type elastic struct {
	job *api.JobInfo
	// counted reports whether plugins let only so many pods of the gang go, whichever they are. They are asked about the chosen ones.
	counted bool
}

// allows reports whether the gang has its minimum once the units are evicted.
func (e *elastic) allows(units []*unit) bool {
	left := spareOf(e.job)
	return !slices.ContainsFunc(units, func(u *unit) bool {
		return u.elastic == e && slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return !left.take(task) })
	})
}

// withSpare returns the unit, and for a core the spare pods that go with it and are not gone.
func (u *unit) withSpare(gone map[*unit]bool) []*unit {
	return slices.DeleteFunc(append(slices.Clone(u.spare), u), func(u *unit) bool { return gone[u] || u.isEvicted() })
}

// isEvicted reports whether the session has evicted a pod of the unit.
func (u *unit) isEvicted() bool {
	return slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return !api.PreemptableStatus(task.Status) })
}

// cost is what an eviction costs, the dearest part first: the PodDisruptionBudgets that it breaks, the position of the victims' queue among the queues that lose pods
// (candidates.others), the gangs that fall below their minimum, the highest priority of a victim's gang, the work that is
// lost in seconds, and the number of victims.
type cost struct {
	budgets  int
	queue    int
	broken   int
	priority int32
	lost     float64
	pods     int
}

func (c cost) compare(other cost) int {
	return cmp.Or(cmp.Compare(c.budgets, other.budgets), cmp.Compare(c.queue, other.queue), cmp.Compare(c.broken, other.broken), cmp.Compare(c.priority, other.priority), cmp.Compare(c.lost, other.lost), cmp.Compare(c.pods, other.pods))
}

// compareUnits orders units by their costs. Extra pods come after all units without which no gang falls below its minimum: node by
// node, and first those on nodes where few pods of their gang have to go.
func compareUnits(l, r *unit) int {
	if before := cmp.Or(cmp.Compare(l.cost.queue, r.cost.queue), cmp.Compare(l.cost.broken, r.cost.broken), cmp.Compare(min(l.onNode, 1), min(r.onNode, 1))); before != 0 || !l.extra() {
		return cmp.Or(before, l.cost.compare(r.cost))
	}
	return cmp.Or(cmp.Compare(l.cost.priority, r.cost.priority), cmp.Compare(l.onNode, r.onNode), cmp.Compare(l.nodes[0], r.nodes[0]), l.cost.compare(r.cost))
}

// costOf returns what evicting all the units costs, except budgets.
func costOf(units []*unit) cost {
	var sum cost
	sum.priority = math.MinInt32
	for _, u := range units {
		sum.queue = max(sum.queue, u.cost.queue)
		sum.broken += u.cost.broken
		sum.priority = max(sum.priority, u.cost.priority)
		sum.lost += u.cost.lost
		sum.pods += u.cost.pods
	}
	return sum
}

// units returns the pods that may be evicted for the asker's gang, the cheapest first. The plugins decide for the pods of
// each job together.
func (p *preemption) units(asker *api.TaskInfo) []*unit {
	c, job := p.candidates, p.ssn.Jobs[asker.Job]
	key := c.keyOf(job, asker)
	units, known := c.known[key]
	if !known {
		now, queue, position := p.run.Now(), api.QueueID(""), 0
		own := false
		for _, other := range c.jobsFor(job.Queue) {
			if p.together[other.UID] { // plugins answer differently for pods of the asker's own gang
				own = true
				continue
			}
			if other.Queue != queue {
				queue, position = other.Queue, position+1
			}
			units = append(units, p.unitsOf(other, position, asker, now)...)
		}
		slices.SortStableFunc(units, compareUnits)
		if c.alike && !own { // others with the key may evict pods of the asker's gang
			c.known[key] = units
		}
	}
	return slices.DeleteFunc(slices.Clone(units), func(u *unit) bool {
		return p.together[u.tasks[0].Job] || u.isEvicted()
	})
}

// unitsOf returns the pods of the job that may be evicted. Pods beyond the job's minimum are units of their own, the
// youngest first. The others are one unit, if all of them may be evicted; or units of their own, if pods are evicted one
// by one. queue is part of their costs.
func (p *preemption) unitsOf(job *api.JobInfo, queue int, asker *api.TaskInfo, now time.Time) []*unit {
	running, allocated := p.running(job, now)
	if len(running) == 0 {
		return nil
	}
	running = spareFirst(job, running) // plugin gang allows as many pods as are spare, whichever come first
	allowed := map[api.TaskID]bool{}
	for _, task := range p.candidates.allowed(asker, running) {
		allowed[task.UID] = true
	}
	var units []*unit
	var core []*api.TaskInfo
	spare, breaks := spareOf(job), job.ReadyTaskNum() >= job.MinAvailable
	saved := savedAt(job, now)
	newUnit := func(breaks bool, tasks []*api.TaskInfo) *unit {
		u := &unit{tasks: tasks, nodes: make([]int32, len(tasks)), cost: cost{queue: queue, priority: job.Priority, pods: len(tasks)}}
		if breaks {
			u.cost.broken = 1
		}
		for i, task := range tasks {
			u.cost.lost += lost(task, saved, now)
			u.nodes[i], _ = p.run.Index.Number(task.NodeName)
		}
		return u
	}
	for i, task := range running {
		switch {
		case !allowed[task.UID]:
		case spare.take(task):
			units = append(units, newUnit(false, running[i:i+1:i+1]))
			allocated--
		default:
			core = append(core, task)
		}
	}
	spares := slices.Clone(units)
	oneByOne := p.candidates.podByPod || job.MinAvailable <= 1
	switch {
	case oneByOne:
		for i := range core {
			units = append(units, newUnit(breaks, core[i:i+1:i+1]))
		}
	case len(core) > 0 && len(core) == allocated:
		whole := newUnit(breaks, core)
		whole.spare = spares
		for _, u := range spares {
			u.core = whole
		}
		units = append(units, whole)
	}
	pods := 0
	for _, u := range units {
		pods += len(u.tasks)
	}
	for _, u := range units {
		u.partial = pods < len(running)
	}
	if len(spares) == 0 {
		return units
	}
	rest := slices.DeleteFunc(slices.Clone(running), func(task *api.TaskInfo) bool { return allowed[task.UID] })
	counted := len(rest) > 0 && len(p.candidates.allowed(asker, rest)) > 0
	if counted {
		core = append(core, rest...)
	} else if oneByOne { // they are units already
		return units
	}
	return append(units, extraPods(&elastic{job: job, counted: counted}, units, core, newUnit)...)
}

// extraPods returns the others as extra pods of the gang, whose other units are given.
func extraPods(e *elastic, units []*unit, others []*api.TaskInfo, newUnit func(breaks bool, tasks []*api.TaskInfo) *unit) (extra []*unit) {
	if len(others) == 0 {
		return nil
	}
	onNode := map[string]int{}
	for _, u := range units {
		u.elastic = e
		if len(u.tasks) == 1 && u.cost.broken == 0 { // a spare pod
			onNode[u.tasks[0].NodeName]++
		}
	}
	for _, task := range others {
		onNode[task.NodeName]++
	}
	for i, task := range others {
		one := newUnit(false, others[i:i+1:i+1])
		one.elastic, one.onNode = e, onNode[task.NodeName]
		extra = append(extra, one)
	}
	return extra
}

// running returns the job's preemptable pods that are running or bound, sorted by priority and then by the work that they would
// lose, the least first. allocated is the number of the job's pods that hold nodes.
func (p *preemption) running(job *api.JobInfo, now time.Time) (running []*api.TaskInfo, allocated int) {
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		allocated += len(tasks)
		for _, task := range tasks {
			if api.PreemptableStatus(status) && task.Preemptable && p.ssn.Nodes[task.NodeName] != nil {
				running = append(running, task)
			}
		}
	}
	saved := savedAt(job, now)
	slices.SortFunc(running, func(l, r *api.TaskInfo) int {
		return cmp.Or(cmp.Compare(l.Priority, r.Priority), cmp.Compare(lost(l, saved, now), lost(r, saved, now)), cmp.Compare(l.UID, r.UID))
	})
	return running, allocated
}

// spare is how many pods a job has beyond its minimum, in all and beyond the minimum of each role.
type spare struct {
	pods    int
	ofRoles map[string]int
}

func spareOf(job *api.JobInfo) *spare {
	s := &spare{pods: int(job.ReadyTaskNum() - job.MinAvailable)}
	if job.ContainsSubJobPolicy() {
		s.pods = 0 // the minimum also says how many pods each sub-group needs
	}
	if s.pods <= 0 || len(job.TaskMinAvailable) == 0 {
		return s
	}
	s.ofRoles = map[string]int{}
	for role, needed := range job.TaskMinAvailable {
		s.ofRoles[role] = -int(needed)
	}
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded {
			for _, task := range tasks {
				s.ofRoles[task.TaskRole]++
			}
		}
	}
	return s
}

// spareFirst returns the job's tasks with those first that are beyond its minimum.
func spareFirst(job *api.JobInfo, tasks []*api.TaskInfo) []*api.TaskInfo {
	var first, others []*api.TaskInfo
	spare := spareOf(job)
	for _, task := range tasks {
		if spare.take(task) {
			first = append(first, task)
		} else {
			others = append(others, task)
		}
	}
	return append(first, others...)
}

// take reports whether the pod is beyond the minimum. If so, it counts the pod as evicted.
func (s *spare) take(task *api.TaskInfo) bool {
	if s.pods <= 0 || s.ofRoles != nil && s.ofRoles[task.TaskRole] <= 0 {
		return false
	}
	s.pods--
	if s.ofRoles != nil {
		s.ofRoles[task.TaskRole]--
	}
	return true
}
