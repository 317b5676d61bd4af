// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

const (
	// maxDemandClasses bounds of how many classes a gang's demand is known, as each costs a look at every node. Gangs have a
	// handful of roles; where members have claims of their own, each is a class. Room for some of them is room for fewer than
	// all, so groups are still never left out wrongly.
	maxDemandClasses = 8
	// maxFurtherTasks bounds how many tasks besides those needed are looked at one by one where any will do: so many that those
	// needed can be chosen among them, without going through thousands of surplus members in each turn.
	maxFurtherTasks = 64
)

// demand is what must be placed for a gang to be ready: so many tasks, and of each class that is known.
type demand struct {
	// caches are the tasks' classes', kept here as a class may lose its own to another that needs one.
	caches  map[*feasible.TaskClass]*feasible.ClassCache
	classes []*feasible.ClassCache
	// counts is how many tasks of each class there are: those needed, or when choice is set, all that may be taken.
	counts map[*feasible.ClassCache]int
	// further is how many tasks, of classes that are not known, ask for as much as those of a class that is.
	further map[*feasible.ClassCache]int
	// beyond is how many tasks of each class there are behind those that are counted.
	beyond map[*feasible.ClassCache]int
	needed int
	// share is what those needed ask for together, in dominant shares; of any choice and of unknown classes on the average of
	// those that are counted.
	share float64
	// choice is true if there are more tasks than are needed, unknown if there are tasks whose class is not known.
	choice, unknown bool
}

// demandOf finds what the job's minimum needs at least, and of which tasks that may be.
func (r *Attempt) demandOf() (*demand, error) {
	d := &demand{caches: map[*feasible.TaskClass]*feasible.ClassCache{}, counts: map[*feasible.ClassCache]int{}, further: map[*feasible.ClassCache]int{}, beyond: map[*feasible.ClassCache]int{}, needed: r.leastNeeded()}
	left := 0
	for _, subJob := range r.pending.subJobs {
		tasks := r.pending.tasks[subJob.UID]
		left += len(tasks)
		if most := min(r.neededAtOnce(subJob, 1), len(tasks)) + maxFurtherTasks; len(tasks) > most {
			r.countBeyond(subJob.UID, tasks, most, d)
			tasks = tasks[:most]
		}
		for _, task := range tasks {
			if len(d.classes) == maxDemandClasses && d.counts[d.caches[r.run.finder.Class(task)]] == 0 {
				d.addUnknown(task)
				continue
			}
			class, err := r.cacheFor(task, d)
			if err != nil {
				return nil, err
			}
			if d.counts[class] == 0 {
				d.classes = append(d.classes, class)
			}
			d.counts[class]++
		}
	}
	d.choice = d.needed < left
	slices.SortStableFunc(d.classes, func(l, o *feasible.ClassCache) int {
		return cmp.Compare(r.run.dominantShare(o.Task()), r.run.dominantShare(l.Task()))
	})
	counted := 0
	for _, class := range d.classes {
		counted += d.counts[class]
		d.share += float64(d.counts[class]) * r.run.dominantShare(class.Task())
	}
	if counted > 0 {
		d.share *= float64(d.needed) / float64(counted)
	}
	return d, nil
}

// cacheFor returns the cache of the task's class, one for as long as there is the demand.
func (r *Attempt) cacheFor(task *api.TaskInfo, d *demand) (*feasible.ClassCache, error) {
	class := r.run.finder.Class(task)
	if known := d.caches[class]; known != nil {
		return known, nil
	}
	cache, err := r.run.finder.Cache(task)
	if err == nil {
		d.caches[class] = cache
	}
	return cache, err
}

// addUnknown takes in a task of a class beyond those that are known.
func (d *demand) addUnknown(task *api.TaskInfo) {
	d.unknown = true
	like := func(c *feasible.ClassCache) bool { return c.Task().InitResreq.Equal(task.InitResreq, api.Zero) }
	if i := slices.IndexFunc(d.classes, like); i >= 0 {
		d.further[d.classes[i]]++
	}
}

// together bounds how many of the needed tasks the set takes now, of all classes together. Where each class asks for as much as
// the next in everything, a node takes no more of them than of the one it takes the most of.
func (d *demand) together(set *nodeset.Set) int {
	if d.unknown || len(d.beyond) > 0 || len(d.classes) < 2 || !d.nested() {
		return d.needed // tasks of other classes may do, or one class decides
	}
	most := make([]int32, len(set.Nodes))
	for _, class := range d.classes {
		for place, copies := range class.Room(set).Copies {
			most[place] = max(most[place], copies)
		}
	}
	sum := 0
	for _, copies := range most {
		sum += int(copies)
	}
	return sum
}

// nested is true if each class, the largest first, asks for no less than the next of everything.
func (d *demand) nested() bool {
	for i := 1; i < len(d.classes); i++ {
		if !d.classes[i].Task().InitResreq.LessEqual(d.classes[i-1].Task().InitResreq, api.Zero) {
			return false
		}
	}
	return true
}

// oneByOne is true if a task is needed that is placed one by one.
func (d *demand) oneByOne() bool {
	return slices.ContainsFunc(d.classes, (*feasible.ClassCache).OneByOne)
}

// countable is true if the members that fit into a group can be counted node by node: they are alike and do not exclude each
// other.
func (d *demand) countable() bool {
	for class, count := range d.beyond {
		if count > 0 && d.counts[class] == 0 {
			return false
		}
	}
	return len(d.classes) == 1 && !d.unknown && !d.oneByOne() && len(hostPorts(d.classes[0].Task().Pod)) == 0
}
