// SPDX-License-Identifier: Apache-2.0

package state

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

// Demand is what must be placed for a gang to be ready: so many tasks, and of each class that is known.
type Demand struct {
	// caches are the tasks' classes', kept here as a class may lose its own to another that needs one.
	caches  map[*feasible.TaskClass]*feasible.ClassCache
	Classes []*feasible.ClassCache
	// Counts is how many tasks of each class there are: those needed, or when choice is set, all that may be taken.
	Counts map[*feasible.ClassCache]int
	// Further is how many tasks, of classes that are not known, ask for as much as those of a class that is.
	Further map[*feasible.ClassCache]int
	// Beyond is how many tasks of each class there are behind those that are counted.
	Beyond map[*feasible.ClassCache]int
	Needed int
	// Share is what those needed ask for together, in dominant shares; of any choice and of unknown classes on the average of
	// those that are counted.
	Share float64
	// Choice is true if there are more tasks than are needed, unknown if there are tasks whose class is not known.
	Choice, Unknown bool
}

// DemandOf finds what the job's minimum needs at least, and of which tasks that may be.
func (r *Attempt) DemandOf() (*Demand, error) {
	d := &Demand{caches: map[*feasible.TaskClass]*feasible.ClassCache{}, Counts: map[*feasible.ClassCache]int{}, Further: map[*feasible.ClassCache]int{}, Beyond: map[*feasible.ClassCache]int{}, Needed: r.leastNeeded()}
	left := 0
	for _, subJob := range r.Pending.SubJobs {
		tasks := r.Pending.Tasks[subJob.UID]
		left += len(tasks)
		if most := min(r.NeededAtOnce(subJob, 1), len(tasks)) + maxFurtherTasks; len(tasks) > most {
			r.countBeyond(subJob.UID, tasks, most, d)
			tasks = tasks[:most]
		}
		for _, task := range tasks {
			if len(d.Classes) == maxDemandClasses && d.Counts[d.caches[r.Run.Finder.Class(task)]] == 0 {
				d.addUnknown(task)
				continue
			}
			class, err := r.cacheFor(task, d)
			if err != nil {
				return nil, err
			}
			if d.Counts[class] == 0 {
				d.Classes = append(d.Classes, class)
			}
			d.Counts[class]++
		}
	}
	d.Choice = d.Needed < left
	slices.SortStableFunc(d.Classes, func(l, o *feasible.ClassCache) int {
		return cmp.Compare(r.Run.DominantShare(o.Task()), r.Run.DominantShare(l.Task()))
	})
	counted := 0
	for _, class := range d.Classes {
		counted += d.Counts[class]
		d.Share += float64(d.Counts[class]) * r.Run.DominantShare(class.Task())
	}
	if counted > 0 {
		d.Share *= float64(d.Needed) / float64(counted)
	}
	return d, nil
}

// cacheFor returns the cache of the task's class, one for as long as there is the demand.
func (r *Attempt) cacheFor(task *api.TaskInfo, d *Demand) (*feasible.ClassCache, error) {
	class := r.Run.Finder.Class(task)
	if known := d.caches[class]; known != nil {
		return known, nil
	}
	cache, err := r.Run.Finder.Cache(task)
	if err == nil {
		d.caches[class] = cache
	}
	return cache, err
}

// countBeyond counts, for the demand, the sub-job's tasks behind the first ones, if they are of few classes.
func (r *Attempt) countBeyond(subJob api.SubJobID, tasks []*api.TaskInfo, first int, d *Demand) {
	known := r.Run.Progress.Job(r.Job)
	c := known.counts[subJob]
	if c == nil || !c.countOff(r.Run.Finder.Class, tasks) {
		c = newClassCounts(r.Run.Finder.Class, tasks)
		if known.counts == nil {
			known.counts = map[api.SubJobID]*classCounts{}
		}
		known.counts[subJob] = c
	}
	if len(c.counts) > maxDemandClasses {
		d.Unknown = true
		return
	}
	for class, count := range c.counts {
		cache, err := r.cacheFor(c.samples[class], d)
		if err != nil {
			d.Unknown = true
			return
		}
		d.Beyond[cache] += count
	}
	for _, task := range tasks[:first] {
		d.Beyond[d.caches[r.Run.Finder.Class(task)]]--
	}
}

// addUnknown takes in a task of a class beyond those that are known.
func (d *Demand) addUnknown(task *api.TaskInfo) {
	d.Unknown = true
	like := func(c *feasible.ClassCache) bool { return c.Task().InitResreq.Equal(task.InitResreq, api.Zero) }
	if i := slices.IndexFunc(d.Classes, like); i >= 0 {
		d.Further[d.Classes[i]]++
	}
}

// Together bounds how many of the needed tasks the set takes now, of all classes together. Where each class asks for as much as
// the next in everything, a node takes no more of them than of the one it takes the most of.
func (d *Demand) Together(set *nodeset.Set) int {
	if d.Unknown || len(d.Beyond) > 0 || len(d.Classes) < 2 || !d.nested() {
		return d.Needed // tasks of other classes may do, or one class decides
	}
	most := make([]int32, len(set.Nodes))
	for _, class := range d.Classes {
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
func (d *Demand) nested() bool {
	for i := 1; i < len(d.Classes); i++ {
		if !d.Classes[i].Task().InitResreq.LessEqual(d.Classes[i-1].Task().InitResreq, api.Zero) {
			return false
		}
	}
	return true
}

// OneByOne is true if a task is needed that is placed one by one.
func (d *Demand) OneByOne() bool {
	return slices.ContainsFunc(d.Classes, (*feasible.ClassCache).OneByOne)
}

// Countable is true if the members that fit into a group can be counted node by node: they are alike and do not exclude each
// other.
func (d *Demand) Countable() bool {
	for class, count := range d.Beyond {
		if count > 0 && d.Counts[class] == 0 {
			return false
		}
	}
	return len(d.Classes) == 1 && !d.Unknown && !d.OneByOne() && len(hostPorts(d.Classes[0].Task().Pod)) == 0
}
