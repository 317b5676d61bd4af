// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// The reasons of the events and conditions that report an eviction: the pod is evicted, or it stays after all. refused is
// the reason of the event on the gang that was to take the place of evicted pods.
const (
	evicted = "Evict"
	stays   = "EvictionFailed"
	refused = "EvictionRefused"
)

// Evicting records events on the pod, and on its gang's PodGroup if it has one, that the pod is being evicted.
func (r *Reporter) Evicting(pod *v1.Pod, group *api.PodGroup, reason string) {
	r.outlet.recorder.Event(pod, v1.EventTypeWarning, evicted, evictedFor(reason))
	if group != nil {
		r.outlet.gangEvent(group, v1.EventTypeNormal, evicted, brief.Text(reason))
	}
}

func evictedFor(reason string) string { return brief.Text("Evicted: " + reason) }

// Evicted sets the pod's conditions, so that users, controllers and the next leader can distinguish an evicted pod from a failed
// one. podGroup is the UID of the PodGroup of the gang for which it is evicted; empty if it is not known. Evicted returns once
// the conditions are written, or could not be written, because the caller then deletes the pod.
func (r *Reporter) Evicted(pod *v1.Pod, podGroup types.UID, reason string) {
	r.patchPod(pod, func(status *v1.PodStatus) {
		conditions.SetEvicted(status, evicted, podGroup)
		setEvicted(status, pod.Spec.SchedulerName, reason)
	})
}

// EvictionAsked notes on the pod that the API server is asked to evict it. The arguments are as for Evicted.
func (r *Reporter) EvictionAsked(pod *v1.Pod, podGroup types.UID) {
	r.patchPod(pod, func(status *v1.PodStatus) { conditions.SetEvicted(status, evicted, podGroup) })
}

// NotEvicted takes back what EvictionAsked, or Evicted if asked is not set, has noted on the pod, because it could not be
// evicted.
func (r *Reporter) NotEvicted(pod *v1.Pod, asked bool) {
	noted := *pod
	noted.Status.Conditions = nil // the watch may not have shown yet the conditions that were noted
	r.patchPod(&noted, func(status *v1.PodStatus) {
		conditions.SetNotEvicted(status, stays)
		if asked {
			return
		}
		podutil.UpdatePodCondition(status, &v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionFalse, Reason: stays})
	})
}

// EvictionRefused records on the PodGroup of a gang that pods are not evicted for it, because one of them could not be evicted.
// Pods of other namespaces are not named.
func (r *Reporter) EvictionRefused(group *api.PodGroup, pod *v1.Pod, err error) {
	what := "A pod of another namespace cannot be evicted"
	if pod.Namespace == group.Namespace {
		what = fmt.Sprintf("Pod %s cannot be evicted: %v", pod.Name, err)
	}
	r.outlet.gangEvent(group, v1.EventTypeWarning, refused, brief.Text(what+". The pods that are not evicted yet stay"))
}

func (r *Reporter) patchPod(pod *v1.Pod, change func(status *v1.PodStatus)) {
	if err := r.outlet.status.PatchPodConditions(pod, change); err != nil {
		logger().Error(err, "Writing the conditions of an evicted pod failed", "pod", klog.KObj(pod))
	}
}

// setEvicted sets the conditions of an evicted pod that users and controllers read.
func setEvicted(status *v1.PodStatus, scheduler, reason string) {
	why := "evicted to free resources for other pods"
	if action, _, _ := strings.Cut(reason, " "); action != "preempt" && action != "reclaim" {
		why = "evicted: " + reason
	}
	podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type: v1.PodReady, Status: v1.ConditionFalse, Reason: evicted, Message: evictedFor(reason),
	})
	podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: brief.Text(scheduler + ": " + why),
	})
}
