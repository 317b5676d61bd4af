// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// evicted is the reason of the events and of the condition Ready that report an eviction.
const evicted = "Evict"

// Evicting records an event on the PodGroup that one of the gang's pods is being evicted.
func (r *Reporter) Evicting(group *api.PodGroup, reason string) {
	r.outlet.gangEvent(group, v1.EventTypeNormal, evicted, brief.Text(reason))
}

// Evicted reports on the pod that the pod is evicted: in an event, and in the conditions by which users and controllers
// distinguish an evicted pod from a failed one. It returns once the conditions are written, or could not be written,
// because the caller then deletes the pod.
func (r *Reporter) Evicted(pod *v1.Pod, reason string) {
	message := brief.Text("Evicted: " + reason)
	r.outlet.recorder.Event(pod, v1.EventTypeWarning, evicted, message)
	set := func(live *v1.Pod) bool { return setEvicted(live, reason, message) }
	if err := r.outlet.status.WritePod(pod, set); err != nil {
		logger().Error(err, "Writing the conditions of an evicted pod failed", "pod", klog.KObj(pod))
	}
}

// setEvicted sets the conditions of an evicted pod in its status, and reports whether one of them changed.
func setEvicted(live *v1.Pod, reason, message string) (changed bool) {
	why := "evicted to free resources for other pods"
	if action, _, _ := strings.Cut(reason, " "); action != "preempt" && action != "reclaim" {
		why = "evicted: " + reason
	}
	changed = podutil.UpdatePodCondition(&live.Status, &v1.PodCondition{
		Type: v1.PodReady, Status: v1.ConditionFalse, Reason: evicted, Message: message,
	})
	changed = podutil.UpdatePodCondition(&live.Status, &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: brief.Text(live.Spec.SchedulerName + ": " + why),
	}) || changed
	return changed
}
