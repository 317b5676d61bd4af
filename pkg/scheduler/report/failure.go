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
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
)

// Limits, in bytes, on two parts of a gang's failure message: the first failure, and the members that the gang lacks.
// With these limits the end of the message, which says what happened to the gang, is not cut off.
const (
	mostOfCause = 560
	mostOfLack  = 320
)

// Failure describes why a gang's last bind transaction failed.
type Failure struct {
	// Reason and Message are shown to users. Message does not change between attempts that fail for the same cause.
	Reason, Message string
	// Nodes are the nodes on which members failed.
	Nodes []string

	// others is the message for all members that did not fail themselves but were rolled back with the gang.
	others string
	// causes are sorted digests of the errors of members that failed themselves. Names and UIDs of pods are removed from
	// the errors before: it is chance which of a gang's equal pods is placed on a node that refuses it.
	causes []uint64
	// lead is the digest of the one error in causes that Message contains.
	lead uint64
	// claims reports whether a member that has claims failed.
	claims bool
	// since is the time at which the failure was first reported.
	since time.Time
	// reported has, by pod UID, the message that was reported on the pod.
	reported map[types.UID]string

	// gang, repeated and notices are the input of Publish: the gang, whether the failure repeats the last one, and the
	// reports on pods.
	gang     api.JobID
	repeated bool
	notices  []podNotice
}

// podNotice is the report on a pod that was not bound.
type podNotice struct {
	binding.Failure
	message string
}

// Failed records that the gang's transaction failed because of the given failures of its members. The caller passes the
// returned Failure to Publish.
func (r *Reporter) Failed(gang api.JobID, result binding.Result, failed []binding.Failure) Failure {
	own := slices.DeleteFunc(slices.Clone(result.Failed), func(f binding.Failure) bool { return f.Member.Task.Job != gang })
	return r.history.recordFailure(gang, newFailure(result, failed), own, r.podsOf(gang))
}

// Publish reports the failure on the gang's PodGroup and on the pods that were not bound.
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
		unnamed := strings.NewReplacer(task.Namespace+"/"+task.Name, "POD", task.Name, "POD", string(task.UID), "UID")
		f.causes = append(f.causes, apiwrite.Digest(unnamed.Replace(c.Err.Error())))
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

// markReported returns for each failed member the notice, which is the report on its pod. A member keeps its first
// message across attempts. pods are the gang's current pods; markReported forgets the messages of all other pods.
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
		notices = append(notices, podNotice{member, message})
	}
	return notices
}

// repeats reports whether the failure only repeats the last failure. That is so if it has the cause that the last
// failure named, and no cause that the last failure did not have. A repeated failure is not reported again while the
// events of the last failure can still be read.
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

// culpritsOf returns the members that failed themselves, sorted by pod name. It leaves out members that were rolled
// back only because their gang failed.
func culpritsOf(failed []binding.Failure) []binding.Failure {
	culprits := slices.DeleteFunc(slices.Clone(failed), func(f binding.Failure) bool { return errors.Is(f.Err, binding.ErrNoQuorum) })
	slices.SortFunc(culprits, func(a, b binding.Failure) int { return strings.Compare(a.Member.Task.Name, b.Member.Task.Name) })
	return culprits
}

// failureMessage returns a message with the failure of the first culprit by pod name, how many other culprits failed,
// and what happened to the gang.
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

// failureReason returns BindFailed if the gang reached its minimum and members failed only when they were bound;
// otherwise PreBindFailed.
func failureReason(r binding.Result) string {
	for _, f := range r.Failed {
		var rejected *binding.BindError
		if !errors.Is(f.Err, binding.ErrNoQuorum) && !errors.As(f.Err, &rejected) {
			return framework.PreBindFailed
		}
	}
	if r.QuorumErr != nil {
		return framework.PreBindFailed
	}
	return framework.BindFailed
}
