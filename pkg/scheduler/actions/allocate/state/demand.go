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
	// maxDemandClasses bounds the number of known classes in a gang's demand, because each class is checked on every
	// node. Gangs have few roles, but if members have claims of their own, each member is a class. Leaving classes out
	// never excludes a node group wrongly: a node group with room for all needed tasks has room for some of them.
	maxDemandClasses = 8
	// maxFurtherTasks bounds how many tasks besides the needed number are considered one by one, if a gang needs only
	// some of its tasks. This is enough to choose from, without a pass over thousands of surplus members in each
	// attempt.
	maxFurtherTasks = 64
)

// Demand is the tasks that must be placed for a gang to be ready: their number, and the number of tasks of each known
// class. The known classes are those in Classes, at most maxDemandClasses.
type Demand struct {
	// results are the filter results of the tasks' classes. They are kept here because the session's feasible.Finder drops
	// its caches when it has too many.
	results map[*feasible.TaskClass]*feasible.ClassResults
	Classes []*feasible.ClassResults
	// Counts is the number of tasks of each class: of the needed tasks or, if Choice is set, of all tasks from which the
	// needed ones are chosen.
	Counts map[*feasible.ClassResults]int
	// Further is, for each class in Classes, the number of tasks with an equal request whose classes are not in
	// Classes.
	Further map[*feasible.ClassResults]int
	// Beyond is how many tasks of each class follow after the counted tasks in task order.
	Beyond map[*feasible.ClassResults]int
	Needed int
	// Share is the total request of the needed tasks, in dominant shares. If Choice or Unknown is set, it is an estimate: the
	// average request of the tasks in Counts, times Needed.
	Share float64
	// Choice reports whether more tasks are pending than needed. Unknown reports whether some tasks are of classes
	// whose tasks are not counted by class.
	Choice, Unknown bool
}

// DemandOf returns the smallest demand that makes the job ready, and the tasks that can satisfy it.
func (r *Attempt) DemandOf() (*Demand, error) {
	d := &Demand{results: map[*feasible.TaskClass]*feasible.ClassResults{}, Counts: map[*feasible.ClassResults]int{}, Further: map[*feasible.ClassResults]int{}, Beyond: map[*feasible.ClassResults]int{}, Needed: r.leastNeeded()}
	left := 0
	for _, subJob := range r.Pending.SubJobs {
		tasks := r.Pending.Tasks[subJob.UID]
		left += len(tasks)
		if most := min(r.NeededAtOnce(subJob, 1), len(tasks)) + maxFurtherTasks; len(tasks) > most {
			r.countBeyond(subJob.UID, tasks, most, d)
			tasks = tasks[:most]
		}
		for _, task := range tasks {
			if len(d.Classes) == maxDemandClasses && d.Counts[d.results[r.Run.Finder.Class(task)]] == 0 {
				d.addUnknown(task)
				continue
			}
			class, err := r.resultsFor(task, d)
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
	slices.SortStableFunc(d.Classes, func(l, o *feasible.ClassResults) int {
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

// resultsFor returns the filter results of the task's class. For one demand it always returns the same pointer.
func (r *Attempt) resultsFor(task *api.TaskInfo, d *Demand) (*feasible.ClassResults, error) {
	class := r.Run.Finder.Class(task)
	if known := d.results[class]; known != nil {
		return known, nil
	}
	cache, err := r.Run.Finder.Cache(task)
	if err != nil {
		return nil, err
	}
	d.results[class] = cache.Results
	return cache.Results, nil
}

// countBeyond adds to d.Beyond the sub-job's tasks after the first tasks (first is their number). If the tasks are of
// too many classes, it sets d.Unknown instead.
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
		results, err := r.resultsFor(c.samples[class], d)
		if err != nil {
			d.Unknown = true
			return
		}
		d.Beyond[results] += count
	}
	for _, task := range tasks[:first] {
		d.Beyond[d.results[r.Run.Finder.Class(task)]]--
	}
}

// addUnknown adds a task whose class is not among the demand's known classes.
func (d *Demand) addUnknown(task *api.TaskInfo) {
	d.Unknown = true
	like := func(c *feasible.ClassResults) bool { return c.Task().InitResreq.Equal(task.InitResreq, api.Zero) }
	if i := slices.IndexFunc(d.Classes, like); i >= 0 {
		d.Further[d.Classes[i]]++
	}
}

// Together returns an upper bound of how many of the needed tasks, of all classes together, the set takes now. If each class requests at least as much of every resource as the next class, the bound for a node is the largest
// number that it takes of any one class. Otherwise the bound is Needed.
func (d *Demand) Together(set *nodeset.Set) int {
	if d.Unknown || len(d.Beyond) > 0 || len(d.Classes) < 2 || !d.nested() {
		// No smaller bound is known: tasks outside of Counts may be placed, there are fewer than two classes, or a
		// class does not request at least as much of every resource as the next class.
		return d.Needed
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

// nested reports whether each class, the largest first, requests at least as much of every resource as the next class.
func (d *Demand) nested() bool {
	for i := 1; i < len(d.Classes); i++ {
		if !d.Classes[i].Task().InitResreq.LessEqual(d.Classes[i-1].Task().InitResreq, api.Zero) {
			return false
		}
	}
	return true
}

// OneByOne reports whether a needed task is of a class for which some plugin is called for every task.
func (d *Demand) OneByOne() bool {
	return slices.ContainsFunc(d.Classes, (*feasible.ClassResults).OneByOne)
}

// Countable reports whether the number of members that fit into a set can be computed node by node: the members are of
// one class and do not exclude each other from a node.
func (d *Demand) Countable() bool {
	for class, count := range d.Beyond {
		if count > 0 && d.Counts[class] == 0 {
			return false
		}
	}
	return len(d.Classes) == 1 && !d.Unknown && !d.OneByOne() && !HasHostPorts(d.Classes[0].Task().Pod)
}
