// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reuse tells the unit's gangs what they were told in the session before, if that follows from the same.
func (u *unitRun) reuse() bool {
	if u.fingerprint = u.makeFingerprint(); u.fingerprint == 0 {
		return false
	}
	found, ok := u.run.memory.FormerUnits[u.id]
	if !ok || found.Fingerprint != u.fingerprint {
		return false
	}
	u.run.memory.Units[u.id] = found
	for uid, wait := range found.Waits {
		u.run.recordWait(u.run.ssn.Jobs[uid], wait)
	}
	if found.Failed != "" {
		found.Explained.Time = u.run.now()
		u.run.ssn.Explain(found.Failed, found.Explained)
	}
	return true
}

// remember keeps what the gangs are told, for the next session.
func (u *unitRun) remember(waits map[api.JobID]framework.Wait, failed *misfit) {
	if u.cut {
		return
	}
	kept := memory.UnitWaits{Fingerprint: u.fingerprint, Waits: waits}
	if failed != nil && failed.explanation != nil {
		kept.Failed, kept.Explained = failed.job.UID, *failed.explanation
	}
	u.run.memory.Units[u.id] = kept
}

// makeFingerprint returns the fingerprint of all that decides on the unit; 0 where that is more than can be named.
func (u *unitRun) makeFingerprint() uint64 {
	session := u.run.prints.ofSession()
	if session == 0 || sharded() {
		return 0
	}
	b := appendNumber(nil, session)
	for _, job := range u.gangs {
		r, err := newAttempt(u.run, job, u.pending[job.UID], false)
		if err != nil {
			return 0
		}
		if b = r.appendUnitGang(appendText(b, string(job.UID))); b == nil {
			return 0
		}
	}
	b = appendNumber(b, u.run.prints.ofAll())
	return max(u.run.prints.bytes(b), 1)
}

// appendUnitGang appends what decides on one of the unit's gangs; nil where that is more than can be named.
func (r *Attempt) appendUnitGang(b []byte) []byte {
	tasks := r.pending.tasks[r.job.DefaultSubJobID()]
	if len(tasks) == 0 || r.gathering != nil || r.dividesItself() || len(r.members.nodes) > 0 || len(r.job.TaskStatusIndex[api.Pipelined]) > 0 ||
		len(r.run.ssn.Avoided(r.job)) > 0 {
		return nil
	}
	in := &packingInput{run: r.run}
	at := map[*feasible.TaskClass]int{}
	classes := make([]*feasible.TaskClass, len(tasks))
	for n, task := range tasks {
		class := r.run.finder.Class(task)
		classes[n] = class
		i, known := at[class]
		if !known {
			i = len(in.tasks)
			at[class], in.tasks = i, append(in.tasks, nil)
		}
		in.tasks[i] = append(in.tasks[i], task)
	}
	chosenBy := ""
	if r.groups != nil {
		chosenBy = r.groups.Plugin
	}
	if !in.decidedBy(r.run.finder.DecidedByClass, chosenBy) {
		return nil
	}
	b = r.appendGang(b, classes)
	if b = r.run.prints.appendJudges(b, in); b == nil {
		return nil
	}
	if r.groups == nil {
		return appendFlag(b, false)
	}
	return r.appendGroups(appendFlag(b, true))
}
