// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// Fingerprint returns a hash of everything that decides whether the job can be placed; 0 if a part of that cannot be
// compared between sessions. It is computed once for each attempt, before the first trial or after all trials are undone.
func (r *Attempt) Fingerprint() uint64 {
	if !r.Found.fingerprinted {
		r.Found.fingerprint, r.Found.fingerprinted = r.makeFingerprint(), true
	}
	return r.Found.fingerprint
}

func (r *Attempt) makeFingerprint() uint64 {
	if Sharded() || !(r.Run.Progress.GangDecides && r.Pending.IsShort(r.Job)) && r.Run.Progress.JobReady(r.Job) {
		return 0
	}
	session := r.Run.Prints.OfSession()
	if session == 0 {
		return 0
	}
	b := r.appendGangOfGroup(appendNumber(make([]byte, 0, 256), session))
	if b == nil {
		return 0
	}
	if r.Groups == nil || !r.Groups.Required {
		b = appendNumber(b, r.Run.Prints.OfNodes())
	} else { // only nodes in the job's node groups count, but the explanation names the largest amounts on any node
		b = r.Run.Prints.appendResource(b, r.Run.Index.LargestNode())
	}
	return max(r.Run.Prints.bytes(b), 1)
}

// appendGroups appends the node groups where the job may be placed, and the state of their nodes.
func (r *Attempt) appendGroups(b []byte) []byte {
	b = keybytes.Flag(keybytes.Text(b, r.Groups.Plugin), r.Groups.Required)
	for _, path := range slices.Sorted(maps.Keys(r.Groups.Refused)) {
		b = keybytes.Text(keybytes.Text(b, path), r.Groups.Refused[path])
	}
	for _, group := range r.Groups.Candidates {
		b = appendNumber(keybytes.Text(b, group.Path()), r.Run.Prints.ofSet(r.Run.Index.Group(group)))
	}
	return b
}

// appendGang appends every property of the gang that decides whether it fits. classes are the classes of its tasks to be
// placed, in task order.
func (r *Attempt) appendGang(b []byte, classes []*feasible.TaskClass) []byte {
	job := r.Job
	b = appendNumber(keybytes.Text(b, string(job.Queue)), uint64(r.IdleOnlyUntil.Unix()))
	b = appendNumber(appendNumber(b, uint64(r.NeededByJob())), uint64(job.MinAvailable))
	b = appendNumber(b, uint64(job.TaskMinAvailableTotal))
	for _, role := range sortedRoles(job.TaskMinAvailable) {
		b = appendNumber(keybytes.Text(b, role), uint64(job.TaskMinAvailable[role]))
	}
	b = appendNumber(b, uint64(len(job.TaskMinAvailable)))
	b = appendNumber(appendNumber(b, uint64(len(classes))), uint64(len(job.Tasks)))
	if len(classes) < len(job.Tasks) { // else each role lacks its full minimum, which is already appended
		lacking := r.NeededByRole()
		b = appendNumber(b, uint64(len(lacking)))
		for _, role := range sortedRoles(lacking) {
			b = appendNumber(keybytes.Text(b, role), uint64(lacking[role]))
		}
	}
	for _, class := range classes {
		b = appendNumber(b, class.Fingerprint())
	}
	return b
}

// sortedRoles returns the roles, sorted. Most gangs have none.
func sortedRoles(counts map[string]int32) []string {
	if len(counts) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(counts))
}

// QueueTakes reports whether the gang's queue has room for all of the tasks together, so that the queue refuses none of
// them.
func (r *Attempt) QueueTakes(tasks []*api.TaskInfo) bool {
	use := &r.Run.Session.QueueUse
	return use.Admits(use.Ask(r.Run.Session.Queues[r.Job.Queue], nil).With(tasks...))
}

// FingerprintOfGangGroup returns a hash of everything that decides whether a gang group of these gangs can be placed; 0 if a part of
// that cannot be compared between sessions. pending are the tasks to be placed, by gang.
func FingerprintOfGangGroup(run *Run, gangs []*api.JobInfo, pending map[api.JobID]*Pending) uint64 {
	session := run.Prints.OfSession()
	if session == 0 || Sharded() {
		return 0
	}
	b := appendNumber(appendNumber(nil, session), uint64(run.Pauses.Until(pending, gangs...).Unix()))
	for _, job := range gangs {
		r, err := NewAttempt(run, job, pending[job.UID], false)
		if err != nil {
			return 0
		}
		if b = r.appendGangOfGroup(keybytes.Text(b, string(job.UID))); b == nil {
			return 0
		}
	}
	b = appendNumber(b, run.Prints.OfNodes())
	return max(run.Prints.bytes(b), 1)
}

// appendGangOfGroup appends everything about the gang and its node groups that decides whether the gang fits; nil if a
// part of that cannot be compared. The gang may belong to a gang group.
func (r *Attempt) appendGangOfGroup(b []byte) []byte {
	tasks := r.Pending.Tasks[r.Job.DefaultSubJobID()]
	if len(tasks) == 0 || r.Planner != nil || r.DividesItself() || len(r.Members.Nodes) > 0 || len(r.Job.TaskStatusIndex[api.Pipelined]) > 0 ||
		len(r.Avoid) > 0 {
		return nil
	}
	in := &PackingInput{Run: r.Run}
	at := map[*feasible.TaskClass]int{}
	classes := make([]*feasible.TaskClass, len(tasks))
	for n, task := range tasks {
		class := r.Run.Finder.Class(task)
		classes[n] = class
		i, known := at[class]
		if !known {
			i = len(in.Tasks)
			at[class], in.Tasks = i, append(in.Tasks, nil)
		}
		in.Tasks[i] = append(in.Tasks[i], task)
	}
	chosenBy := ""
	if r.Groups != nil {
		chosenBy = r.Groups.Plugin
	}
	if !in.decidedBy(r.Run.Finder.DecidedByClass, chosenBy) {
		return nil
	}
	b = r.appendGang(b, classes)
	if b = r.Run.Prints.appendOwnFilters(b, in.Tasks); b == nil {
		return nil
	}
	if r.Groups == nil {
		return keybytes.Flag(b, false)
	}
	return r.appendGroups(keybytes.Flag(b, true))
}
