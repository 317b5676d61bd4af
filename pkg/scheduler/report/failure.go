// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// The most bytes of a gang's message for the first failure, and for the members that the gang lacks. With these bounds the end of the
// message, which is the outcome for the gang, is not cut off.
const (
	mostOfCause = 560
	mostOfLack  = 320
)

// Failure is why a gang's last transaction failed.
type Failure struct {
	// Reason and Message are what users read. The message contains nothing that changes from attempt to attempt while the cause stays
	// the same.
	Reason, Message string
	// Nodes are the nodes that members failed on.
	Nodes []string

	// others is the message for all members that did not fail themselves and were rolled back with the gang.
	others string
	// causes are digests of the errors of members that failed themselves, sorted. Names and UIDs of pods are left out of these errors:
	// which of a gang's equal pods lands on a node that refuses it, and how many fail before the rest is given up, is chance.
	causes []uint64
	// lead is the cause that the message names.
	lead uint64
	// claims reports whether a member with claims failed.
	claims bool
	// since is when the failure was reported.
	since time.Time
	// reported has the message that was reported on each pod.
	reported map[types.UID]string

	// gang, repeated and notices are what Publish reports.
	gang     api.JobID
	repeated bool
	notices  []podNotice
}

// podNotice is what is reported on a pod that was not bound.
type podNotice struct {
	binding.Failure
	message string
	// news reports whether the message was not reported on the pod before. If it was, only the event is recorded again, because it may
	// have been lost; the recorder drops it if the earlier event can still be read. The condition is not written again.
	news bool
}

// Failed records that the gang's transaction failed because of these failures of its members. Publish reports the returned Failure.
func (r *Reporter) Failed(gang api.JobID, result binding.Result, failed []binding.Failure) Failure {
	own := slices.DeleteFunc(slices.Clone(result.Failed), func(f binding.Failure) bool { return f.Member.Task.Job != gang })
	return r.memory.recordFailure(gang, newFailure(result, failed), own, r.podsOf(gang))
}

// Publish reports the failure on the PodGroup and on the pods that were not bound.
func (r *Reporter) Publish(failure Failure) {
	if !failure.repeated {
		r.outlet.gangUnschedulable(failure.gang, failure.Reason, failure.Message)
	} else if group := r.outlet.group(failure.gang); group != nil {
		r.outlet.gangEvent(group, v1.EventTypeWarning, failure.Reason, failure.Message)
	}
	for _, notice := range failure.notices {
		r.outlet.podNotBound(notice, failure.Reason)
	}
}

// podsOf returns the UIDs of the gang's pods in the books.
func (r *Reporter) podsOf(gang api.JobID) map[types.UID]bool {
	r.books.Lock()
	defer r.books.Unlock()
	job := r.books.Jobs.Get(gang)
	if job == nil {
		return nil
	}
	uids := make(map[types.UID]bool, len(job.Tasks))
	for _, task := range job.Tasks {
		uids[task.Pod.UID] = true
	}
	return uids
}

func newFailure(r binding.Result, failed []binding.Failure) Failure {
	culprits := culpritsOf(failed)
	f := Failure{Reason: failureReason(r), Message: failureMessage(r, culprits), since: time.Now(), reported: map[types.UID]string{}}
	f.others = brief.Text("Gang could not be bound: " + f.Message)
	for _, c := range culprits {
		task := c.Member.Task
		alike := strings.NewReplacer(task.Namespace+"/"+task.Name, "POD", task.Name, "POD", string(task.UID), "UID")
		f.causes = append(f.causes, apiwrite.Digest(alike.Replace(c.Err.Error())))
		f.Nodes = append(f.Nodes, c.Member.Node)
		f.claims = f.claims || framework.HasClaims(task.Pod)
	}
	if len(culprits) == 0 {
		f.causes = []uint64{apiwrite.Digest(f.Message)}
	}
	f.lead = f.causes[0]
	slices.Sort(f.causes)
	f.causes = slices.Compact(f.causes)
	return f
}

// markReported returns the notice for each failed member. A member keeps its first message across attempts. pods are the gang's current
// pods; messages of other pods are forgotten.
func (f *Failure) markReported(failed []binding.Failure, pods map[types.UID]bool) (notices []podNotice) {
	maps.DeleteFunc(f.reported, func(uid types.UID, _ string) bool { return !pods[uid] })
	for _, member := range failed {
		if member.PodGone() {
			continue
		}
		uid := member.Member.Task.Pod.UID
		message, known := f.reported[uid]
		if !known {
			message = f.others
			if !errors.Is(member.Err, binding.ErrNoQuorum) {
				message = brief.Text(member.Err.Error())
			}
			f.reported[uid] = message
		}
		notices = append(notices, podNotice{member, message, !known})
	}
	return notices
}

// repeats reports whether the failure has the cause that the last failure named, and no cause that the last failure did not have. Then
// it is not reported again, as long as the events of the last failure can still be read.
func (f *Failure) repeats(last Failure) bool {
	if time.Since(last.since) >= events.Lifetime {
		return false
	}
	if _, again := slices.BinarySearch(f.causes, last.lead); !again {
		return false
	}
	return !slices.ContainsFunc(f.causes, func(cause uint64) bool {
		_, known := slices.BinarySearch(last.causes, cause)
		return !known
	})
}

// culpritsOf leaves out the members that were rolled back only because their gang failed, and sorts the rest by pod name.
func culpritsOf(failed []binding.Failure) []binding.Failure {
	culprits := slices.DeleteFunc(slices.Clone(failed), func(f binding.Failure) bool { return errors.Is(f.Err, binding.ErrNoQuorum) })
	slices.SortFunc(culprits, func(a, b binding.Failure) int { return strings.Compare(a.Member.Task.Name, b.Member.Task.Name) })
	return culprits
}

// failureMessage states the failure of the first culprit by pod name, how many other culprits failed, and the outcome for the gang.
func failureMessage(r binding.Result, culprits []binding.Failure) string {
	var parts []string
	if len(culprits) > 0 {
		parts = append(parts, brief.Cut(culprits[0].Err.Error(), mostOfCause))
	}
	if len(culprits) > 1 {
		parts[0] += fmt.Sprintf(" (and %s failed)", brief.Count(len(culprits)-1, "more pod"))
	}
	if r.QuorumErr != nil {
		parts = append(parts, fmt.Sprintf("%s, rolled back %s", brief.Cut(r.QuorumErr.Error(), mostOfLack), all(len(r.Failed))))
	}
	return brief.Text(cmp.Or(strings.Join(parts, "; "), binding.ErrNoQuorum.Error()))
}

func all(pods int) string {
	if pods == 1 {
		return "1 pod"
	}
	return "all " + brief.Count(pods, "pod")
}

// failureReason returns BindFailed if the gang reached its minimum and only binds of members failed; otherwise PreBindFailed.
func failureReason(r binding.Result) string {
	for _, f := range r.Failed {
		var refused *binding.BindError
		if !errors.Is(f.Err, binding.ErrNoQuorum) && !errors.As(f.Err, &refused) {
			return framework.PreBindFailed
		}
	}
	if r.QuorumErr != nil {
		return framework.PreBindFailed
	}
	return framework.BindFailed
}
