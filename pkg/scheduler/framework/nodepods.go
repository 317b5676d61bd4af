// SPDX-License-Identifier: Apache-2.0

package framework

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// OfDaemonSet reports whether the task's pod belongs to a DaemonSet or is a static pod. Such pods stay on their node
// when the pods of gangs leave it. A tenant can write the owner of a pod.
func OfDaemonSet(task *api.TaskInfo) bool {
	owner := metav1.GetControllerOfNoCopy(task.Pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// CompareStarted orders tasks whose pods a kubelet has accepted before other tasks. Only kubelets may write the start
// time of pods, by default.
func CompareStarted(a, b *api.TaskInfo) int {
	switch x, y := Started(a), Started(b); {
	case x == y:
		return 0
	case x:
		return -1
	default:
		return 1
	}
}

// Started reports whether a kubelet has accepted the task's pod.
func Started(task *api.TaskInfo) bool { return task.Pod.Status.StartTime != nil }
