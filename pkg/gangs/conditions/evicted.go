// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Evicted is the type of the condition of a pod that the scheduler evicts. The scheduler writes it before it deletes the pod,
// so that the next leader knows the pod as a victim, and the gang for which it was evicted. Only components of the control
// plane can write the status of pods. DisruptionTarget does not suffice, because the Eviction API overwrites it.
const Evicted v1.PodConditionType = "scheduling.volcano-prebind.io/Evicted"

// forPodGroup precedes the UID of a PodGroup in the condition's message.
const forPodGroup = "for PodGroup "

// SetEvicted sets the condition Evicted, with the current time. podGroup is the UID of the PodGroup of the gang for which
// the pod is evicted; empty if it is not known.
func SetEvicted(status *v1.PodStatus, reason string, podGroup types.UID) {
	c := v1.PodCondition{Type: Evicted, Status: v1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()}
	if podGroup != "" {
		c.Message = forPodGroup + string(podGroup)
	}
	if _, known := podutil.GetPodCondition(status, Evicted); known != nil {
		*known = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}

// SetNotEvicted sets the condition Evicted of a pod that stays to False.
func SetNotEvicted(status *v1.PodStatus, reason string) {
	podutil.UpdatePodCondition(status, &v1.PodCondition{Type: Evicted, Status: v1.ConditionFalse, Reason: reason})
}

// StayedSince reports whether the scheduler has failed to evict the pod after the given time, and has not tried again.
func StayedSince(pod *v1.Pod, after time.Time) bool {
	_, c := podutil.GetPodCondition(&pod.Status, Evicted)
	return c != nil && c.Status == v1.ConditionFalse && c.LastTransitionTime.After(after)
}

// EvictedAt returns when the scheduler has evicted the pod, if the pod is being deleted for that reason. podGroup is the UID
// of the PodGroup of the gang for which it was evicted; empty if it is not known.
func EvictedAt(pod *v1.Pod) (at time.Time, podGroup types.UID, evicted bool) {
	_, c := podutil.GetPodCondition(&pod.Status, Evicted)
	if c == nil || c.Status != v1.ConditionTrue || pod.DeletionTimestamp == nil {
		return time.Time{}, "", false
	}
	uid, _ := strings.CutPrefix(c.Message, forPodGroup)
	return c.LastTransitionTime.Time, types.UID(uid), true
}
