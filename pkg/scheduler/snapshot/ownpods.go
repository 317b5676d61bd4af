// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// ownPods are the copies of pending tasks' pods, which sessions may write to. given are those of the current session, and former
// those of the last one; nil if that session may have changed them in unknown ways.
type ownPods struct{ given, former map[api.TaskID]ownPod }

type ownPod struct{ source, own *v1.Pod }

// begin begins a session. trusted reports whether the last session is known to write only to the annotations and the node of a
// pod.
func (o *ownPods) begin(trusted bool) {
	o.former, o.given = o.given, map[api.TaskID]ownPod{}
	if !trusted {
		o.former = nil
	}
}

// unchanged reports whether the session has left its copy as it was.
func (p ownPod) unchanged() bool {
	return p.own.Spec.NodeName == p.source.Spec.NodeName && p.own.Status.NominatedNodeName == p.source.Status.NominatedNodeName &&
		maps.Equal(p.own.Annotations, p.source.Annotations)
}

// OwnPod returns a copy of the parts of a pod that scheduling writes: the struct itself and its annotations. All other parts are
// shared and read-only.
func OwnPod(pod *v1.Pod) *v1.Pod {
	own := *pod
	own.Annotations = maps.Clone(pod.Annotations)
	return &own
}

// OwnPodOf returns a copy of the pending task's pod for the session (OwnPod): that of the last session, if neither the pod nor
// the copy has changed. Of a nil Copies, it always returns a new copy.
func (c *Copies) OwnPodOf(task *api.TaskInfo) *v1.Pod {
	if c == nil {
		return OwnPod(task.Pod)
	}
	kept, known := c.pods.former[task.UID]
	if !known || kept.source != task.Pod || !kept.unchanged() {
		kept = ownPod{task.Pod, OwnPod(task.Pod)}
	}
	c.pods.given[task.UID] = kept
	return kept.own
}
