// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Run is one run of the allocate action on a session: the data that all attempts to place a job share.
type Run struct {
	Session      *framework.Session
	Index        *nodeset.Index
	Finder       *feasible.Finder
	CrossSession *crosssession.Cache
	Pauses       Pauses
	Observe      func(result string)
	Now          func() time.Time
	// Progress is the progress of the jobs that were tried so far.
	Progress *Progress
	// Failed are the gangs that are known to fit nowhere.
	Failed Failures
	// PipelineOnly makes trials pipeline every task, even on idle resources, because the session binds none of them.
	PipelineOnly bool
	// Probed counts the tasks placed for explanations alone.
	Probed int
	// devicesOn is, for each vendor, a node with devices of the vendor; nil before the first use. Prints computes
	// fingerprints.
	devicesOn map[string]*api.NodeInfo
	Prints    *Fingerprinter
}

// NewRun begins a run on the session. Flags that differ from the defaults may leave out some nodes (feasible.New).
func NewRun(ssn *framework.Session, m *crosssession.Cache, defaults *options.ServerOption, observe func(result string)) *Run {
	s := &Run{Session: ssn, Index: nodeset.New(ssn), CrossSession: m, Pauses: NewPauses(ssn, m), Observe: observe, Now: time.Now}
	s.Finder = feasible.New(ssn, s.Index, defaults, m.Tasks)
	s.Progress = newProgress(ssn, s.Index)
	s.Prints = newFingerprinter(ssn, s.Index, s.Finder, m)
	s.Prints.OfSession() // before any filter result, because the labels of namespaces may change during the session
	return s
}

// SetPendingReason records why the job is not placed.
func (s *Run) SetPendingReason(job *api.JobInfo, reason framework.PendingReason) {
	job.JobFitErrors = reason.Message
	s.Session.SetPendingReason(job.UID, reason)
}

// SearchOf returns the key of a search for room for tasks of the job. set is the name of the set of nodes or of the kind
// of search.
func (s *Run) SearchOf(job *api.JobInfo, set string, idleOnly bool) crosssession.Search {
	return crosssession.Search{GangGroup: s.gangGroupOf(job), Job: job.UID, Set: set, IdleOnly: idleOnly}
}

// gangGroupOf returns the ID of the job's gang group, or the job's own if it is in no group of several gangs.
func (s *Run) gangGroupOf(job *api.JobInfo) string {
	if gangGroup := s.Session.Placements.GangGroup(job); gangGroup != nil && len(gangGroup.Gangs) > 1 {
		return gangGroup.ID
	}
	return string(job.UID)
}

// HasTurn reports whether the jobs, which are placed together, may be tried in this session. They may not if failed
// attempts for gangs of their namespace have used up their time (crosssession.Turns). No pods are evicted for jobs that
// may not be tried.
func (s *Run) HasTurn(jobs []*api.JobInfo) bool {
	promised := slices.ContainsFunc(jobs, s.Session.Placements.IsPlacedFirst)
	oldest := slices.MinFunc(jobs, func(l, r *api.JobInfo) int { return l.CreationTimestamp.Compare(r.CreationTimestamp.Time) })
	has := s.CrossSession.Turns.Has(jobs[0].Namespace, s.gangGroupOf(jobs[0]), oldest.CreationTimestamp.Time, promised)
	for _, job := range jobs {
		s.Session.Placements.SetUntried(job.UID, !has)
	}
	return has
}

// GangNames returns the session's gangs as crosssession.Turns knows them: the namespace, and the ID of the gang group
// or gang.
func (s *Run) GangNames() map[[2]string]bool {
	names := map[[2]string]bool{}
	for _, job := range s.Session.Jobs {
		names[[2]string{job.Namespace, s.gangGroupOf(job)}] = true
	}
	return names
}

// NoteWaiting records that the jobs, which are placed together, hold resources while they wait for releasing resources.
func (s *Run) NoteWaiting(jobs []*api.JobInfo) {
	s.CrossSession.Turns.Hold(jobs[0].Namespace, s.gangGroupOf(jobs[0]))
}

// ChargeAttempt counts the time of an attempt to place the jobs, which are placed together, that did not lead to a bind.
func (s *Run) ChargeAttempt(jobs []*api.JobInfo, began time.Time) {
	s.CrossSession.Turns.Charge(jobs[0].Namespace, s.gangGroupOf(jobs[0]), s.Now().Sub(began))
}

// ClassesOf returns the classes of the tasks, without duplicates.
func (s *Run) ClassesOf(tasks []*api.TaskInfo) []*feasible.TaskClass {
	var classes []*feasible.TaskClass
	known := map[*feasible.TaskClass]bool{}
	for _, task := range tasks {
		if c := s.Finder.Class(task); !known[c] {
			known[c] = true
			classes = append(classes, c)
		}
	}
	return classes
}

// SameClass returns how many tasks at the beginning of the list are of the class of the first task.
func (s *Run) SameClass(tasks []*api.TaskInfo) int {
	n := 1
	for n < len(tasks) && s.Finder.Class(tasks[n]) == s.Finder.Class(tasks[0]) {
		n++
	}
	return n
}

// asksDevices reports whether the task requests devices of a vendor that some node has.
func (s *Run) asksDevices(task *api.TaskInfo) bool {
	if s.devicesOn == nil {
		s.devicesOn = map[string]*api.NodeInfo{}
		for _, node := range s.Index.Nodes {
			for _, name := range api.RegisteredDevices {
				if _, ok := node.Others[name].(api.Devices); ok {
					s.devicesOn[name] = node
				}
			}
		}
	}
	for _, node := range s.devicesOn {
		if len(Devices(task, node)) > 0 {
			return true
		}
	}
	return false
}

// Devices returns the kinds of devices that the node has and the task requests.
func Devices(task *api.TaskInfo, node *api.NodeInfo) []string {
	var names []string
	for _, name := range api.RegisteredDevices {
		if d, ok := node.Others[name].(api.Devices); ok && d.HasDeviceRequest(task.Pod) {
			names = append(names, name)
		}
	}
	return names
}

// ExceedsNodes returns, by name, the resources that the task requests more of than any node has.
func (s *Run) ExceedsNodes(task *api.TaskInfo) []string {
	fits, missing := task.InitResreq.LessEqualWithResourcesName(s.Index.LargestNode(), api.Zero)
	if fits {
		return nil
	}
	slices.Sort(missing)
	return missing
}

// DominantShare returns the largest share of any of the cluster's resources that the task requests.
func (s *Run) DominantShare(task *api.TaskInfo) float64 {
	total := s.Session.TotalResource
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
