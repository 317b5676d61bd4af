// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// What a gang's message may take of the first failure and of what the gang lacks, in bytes, so that it ends with what
// became of the gang.
const (
	mostOfCause = 560
	mostOfLack  = 320
)

// failuresThatCount are the failures a gang waits after. A shutdown is none, nor is the end of its PodGroup, or of the pods
// of all its members, and neither is a member whose pod was deleted when the gang was bound all the same.
func failuresThatCount(r binding.Result) []binding.Failure {
	var failed []binding.Failure
	allGone := true
	for _, f := range r.Failed {
		if errors.Is(f.Err, binding.ErrDraining) || errors.Is(f.Err, binding.ErrAborted) || errors.Is(f.Err, errGangGone) {
			return nil
		}
		if gone := podGone(f); gone && r.QuorumErr == nil {
			continue
		} else if !gone {
			allGone = false
		}
		failed = append(failed, f)
	}
	if allGone {
		return nil
	}
	return failed
}

// podGone is true if the member failed because its pod is gone: that was told, or some call was told so.
func podGone(f binding.Failure) bool {
	if errors.Is(f.Err, binding.ErrPodGone) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(f.Err, &status) || !apierrors.IsNotFound(f.Err) {
		return false
	}
	what := status.Status().Details
	return what != nil && what.Kind == "pods" && what.Name == f.Member.Task.Name
}

// gangFailure is what a gang's last transaction failed of.
type gangFailure struct {
	// reason and message are what people read. The message holds nothing that changes by itself from try to try.
	reason, message string
	// others is what the members read that were well: one text for all of them.
	others string
	// causes are digests of the culprits' errors, sorted, without what tells pods apart: which of a gang's equal pods lands on a
	// node that refuses it, and how many of them failed before the rest was given up, is chance.
	causes []uint64
	// lead is the cause that the message names.
	lead uint64
	// nodes are those that members failed on.
	nodes []string
	// claims is true if a member with claims failed.
	claims bool
	// since is when the gang was told.
	since time.Time
	// told is what the pods have been told.
	told map[types.UID]string
}

// podTelling is what a pod is told.
type podTelling struct {
	binding.Failure
	message string
	// news is true if it was not told before. An event may have been lost, so the recorder is told again, which drops what can
	// be read; the condition is not written again.
	news bool
}

// tell marks the failed members as told, and returns what they are told: what they were told first. Of pods that are not
// among the gang's tasks any more it forgets that they were.
func (f *gangFailure) tell(failed []binding.Failure, tasks map[types.UID]bool) (tellings []podTelling) {
	maps.DeleteFunc(f.told, func(uid types.UID, _ string) bool { return !tasks[uid] })
	for _, member := range failed {
		if podGone(member) {
			continue
		}
		uid := member.Member.Task.Pod.UID
		message, known := f.told[uid]
		if !known {
			message = f.others
			if !errors.Is(member.Err, binding.ErrNoQuorum) {
				message = brief.Text(member.Err.Error())
			}
			f.told[uid] = message
		}
		tellings = append(tellings, podTelling{member, message, !known})
	}
	return tellings
}

func newFailure(r binding.Result, failed []binding.Failure) gangFailure {
	culprits := culpritsOf(failed)
	f := gangFailure{reason: failureReason(r), message: failureMessage(r, culprits), since: time.Now(), told: map[types.UID]string{}}
	f.others = brief.Text("not bound because its gang was not: " + f.message)
	for _, c := range culprits {
		task := c.Member.Task
		alike := strings.NewReplacer(task.Namespace+"/"+task.Name, "POD", task.Name, "POD", string(task.UID), "UID")
		f.causes = append(f.causes, apiwrite.Digest(alike.Replace(c.Err.Error())))
		f.nodes = append(f.nodes, c.Member.Node)
		f.claims = f.claims || framework.HasClaims(task.Pod)
	}
	if len(culprits) == 0 {
		f.causes = []uint64{apiwrite.Digest(f.message)}
	}
	f.lead = f.causes[0]
	slices.Sort(f.causes)
	f.causes = slices.Compact(f.causes)
	return f
}

// repeats is true if the failure has the cause that the last one named, and none that the last one did not have. It is
// not reported anew then, as long as the events that told of it are still there.
func (f *gangFailure) repeats(last gangFailure) bool {
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

// culpritsOf leaves out the members that were well and failed with their gang; the rest is sorted by pod name.
func culpritsOf(failed []binding.Failure) []binding.Failure {
	culprits := slices.DeleteFunc(slices.Clone(failed), func(f binding.Failure) bool { return errors.Is(f.Err, binding.ErrNoQuorum) })
	slices.SortFunc(culprits, func(a, b binding.Failure) int { return strings.Compare(a.Member.Task.Name, b.Member.Task.Name) })
	return culprits
}

// failureMessage says what failed first by pod name, of how many, and what became of the gang.
func failureMessage(r binding.Result, culprits []binding.Failure) string {
	message := "gang cannot be bound"
	if len(culprits) > 0 {
		message = brief.Cut(culprits[0].Err.Error(), mostOfCause)
	}
	if len(culprits) > 1 {
		message += fmt.Sprintf(" (and %d more pods failed)", len(culprits)-1)
	}
	if r.QuorumErr != nil {
		message += fmt.Sprintf("; %s, so none of the %d pods was bound and all are rolled back",
			brief.Cut(r.QuorumErr.Error(), mostOfLack), len(r.Failed))
	}
	return brief.Text(message)
}

// failureReason is PreBindFailed, unless every culprit is a bind that the API server refused.
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

// reportGang tells of a failed transaction on the PodGroup: with a condition and an event.
func (c *Cache) reportGang(gang api.JobID, failure gangFailure) {
	group := c.podGroupAsDecided(gang)
	if group == nil {
		return
	}
	setCondition(&group.Status, unschedulable(failure.reason, failure.message))
	c.status.PutPodGroup(group, false)
	c.podGroupEvent(group, v1.EventTypeWarning, failure.reason, failure.message)
}

// retellGang tells the event of a failure again, of which the recorder drops what can still be read.
func (c *Cache) retellGang(gang api.JobID, failure gangFailure) {
	if group := c.podGroupAsDecided(gang); group != nil {
		c.podGroupEvent(group, v1.EventTypeWarning, failure.reason, failure.message)
	}
}

// podGroupAsDecided is the gang's PodGroup with the status that is decided and may not be written yet; nil when it is not there.
func (c *Cache) podGroupAsDecided(gang api.JobID) *api.PodGroup {
	c.books.Lock()
	defer c.books.Unlock()
	job := c.books.Jobs.Get(gang)
	if job == nil || job.PodGroup == nil {
		return nil
	}
	group := job.PodGroup.Clone()
	if status, ok := c.status.Decided(job); ok {
		group.Status = *status.DeepCopy()
	}
	return group
}

// reportPod tells a pod that was not bound, with an event and, when it is news, a PodScheduled=False condition.
func (c *Cache) reportPod(t podTelling, reason string) {
	pod := t.Member.Task.Pod.DeepCopy()
	pod.Spec.NodeName = ""
	c.Recorder.Event(pod, v1.EventTypeWarning, reason, t.message)
	if !t.news {
		return
	}
	podutil.UpdatePodCondition(&pod.Status, &v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonSchedulerError, Message: t.message,
	})
	pod.Status.NominatedNodeName = ""
	c.status.PutPod(pod, 0)
}

func unschedulable(reason, message string) scheduling.PodGroupCondition {
	return scheduling.PodGroupCondition{
		Type: scheduling.PodGroupUnschedulableType, Status: v1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(), TransitionID: string(uuid.NewUUID()),
	}
}

func setCondition(status *scheduling.PodGroupStatus, condition scheduling.PodGroupCondition) {
	for i, c := range status.Conditions {
		if c.Type == condition.Type {
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func removeCondition(status *scheduling.PodGroupStatus, drop func(scheduling.PodGroupCondition) bool) {
	kept := status.Conditions[:0:0]
	for _, c := range status.Conditions {
		if !drop(c) {
			kept = append(kept, c)
		}
	}
	status.Conditions = kept
}
