// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"
	"time"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Run is one run of the action on a session: what all attempts to place a job share.
type Run struct {
	ssn     *framework.Session
	index   *nodeset.Index
	finder  *feasible.Finder
	memory  *memory.Memory
	observe func(result string)
	now     func() time.Time
	// progress is of the jobs that have had a turn.
	progress *progress
	// failed are the gangs that fit nowhere.
	failed failures
	// probed counts the tasks placed for explanations alone.
	probed int
	// devicesOn is a node with devices of each make, and prints makes fingerprints; devicesOn is nil before the first use.
	devicesOn map[string]*api.NodeInfo
	prints    *fingerprinter
}

// newRun begins a run on the session. Flags that differ from the defaults may leave out some nodes (feasible.New).
func newRun(ssn *framework.Session, m *memory.Memory, defaults *options.ServerOption, observe func(result string)) *Run {
	s := &Run{ssn: ssn, index: nodeset.New(ssn), memory: m, observe: observe, now: time.Now}
	s.finder = feasible.New(ssn, s.index, defaults, m.Tasks)
	s.progress = newProgress(ssn, s.index)
	s.prints = newFingerprinter(ssn, s.index, s.finder, m)
	return s
}

// recordWait keeps why the job is not placed.
func (s *Run) recordWait(job *api.JobInfo, wait framework.Wait) {
	job.JobFitErrors = wait.Message
	s.ssn.ExplainWait(job.UID, wait)
}

// searchOf is the search for room for tasks of the job in the named set.
func (s *Run) searchOf(job *api.JobInfo, set string, idleOnly bool) memory.Search {
	of := memory.Search{Unit: string(job.UID), Job: job.UID, Set: set, IdleOnly: idleOnly}
	if unit := s.ssn.Unit(job); unit != nil && len(unit.Gangs) > 1 {
		of.Unit = unit.ID
	}
	return of
}

// classesOf lists the classes of the tasks.
func (s *Run) classesOf(tasks []*api.TaskInfo) []*feasible.TaskClass {
	var classes []*feasible.TaskClass
	known := map[*feasible.TaskClass]bool{}
	for _, task := range tasks {
		if c := s.finder.Class(task); !known[c] {
			known[c] = true
			classes = append(classes, c)
		}
	}
	return classes
}

// sameClass is how many tasks at the beginning are of one class.
func (s *Run) sameClass(tasks []*api.TaskInfo) int {
	n := 1
	for n < len(tasks) && s.finder.Class(tasks[n]) == s.finder.Class(tasks[0]) {
		n++
	}
	return n
}

// asksDevices is true if the task asks for devices of a make that some node has.
func (s *Run) asksDevices(task *api.TaskInfo) bool {
	if s.devicesOn == nil {
		s.devicesOn = map[string]*api.NodeInfo{}
		for _, node := range s.index.Nodes {
			for _, name := range api.RegisteredDevices {
				if _, ok := node.Others[name].(api.Devices); ok {
					s.devicesOn[name] = node
				}
			}
		}
	}
	for _, node := range s.devicesOn {
		if len(devices(task, node)) > 0 {
			return true
		}
	}
	return false
}

// devices names the kinds of devices of the node that the task asks for.
func devices(task *api.TaskInfo, node *api.NodeInfo) []string {
	var names []string
	for _, name := range api.RegisteredDevices {
		if d, ok := node.Others[name].(api.Devices); ok && d.HasDeviceRequest(task.Pod) {
			names = append(names, name)
		}
	}
	return names
}

// exceedsNodes are the resources, by name, of which the task asks for more than any node has.
func (s *Run) exceedsNodes(task *api.TaskInfo) []string {
	fits, missing := task.InitResreq.LessEqualWithResourcesName(s.index.LargestNode(), api.Zero)
	if fits {
		return nil
	}
	slices.Sort(missing)
	return missing
}

// dominantShare is the largest share of the cluster's resources that the task asks for.
func (s *Run) dominantShare(task *api.TaskInfo) float64 {
	total := s.ssn.TotalResource
	share := 0.0
	add := func(request, total float64) {
		if total > 0 {
			share = max(share, request/total)
		}
	}
	add(task.InitResreq.MilliCPU, total.MilliCPU)
	add(task.InitResreq.Memory, total.Memory)
	for name, request := range task.InitResreq.ScalarResources {
		add(request, total.ScalarResources[name])
	}
	return share
}
