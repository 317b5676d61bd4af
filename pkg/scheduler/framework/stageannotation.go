// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// StageAnnotation sets an annotation of a pending task. Once the task is handed over to be bound, later sessions see
// the annotation, and it is written with the Binding. The write replaces any value that the pod has, because users may
// change annotations of pending pods. An annotation that a plugin sets on task.Pod directly is written only if it
// differs from the pod's.
func (ssn *Session) StageAnnotation(task *api.TaskInfo, key, value string) {
	of := ssn.stagedAnnotations[task.UID]
	if of == nil {
		of = map[string]*string{}
		ssn.stagedAnnotations[task.UID] = of
	}
	if _, again := of[key]; !again {
		of[key] = nil
		if before, ok := task.Pod.Annotations[key]; ok {
			of[key] = &before
		}
	}
	if task.Pod.Annotations == nil {
		task.Pod.Annotations = map[string]string{}
	}
	task.Pod.Annotations[key] = value
}

// UnstageAnnotation reverts StageAnnotation for the key. It does nothing if StageAnnotation was not called for the key.
func (ssn *Session) UnstageAnnotation(task *api.TaskInfo, key string) {
	before, decided := ssn.stagedAnnotations[task.UID][key]
	if !decided {
		return
	}
	delete(ssn.stagedAnnotations[task.UID], key)
	if before == nil {
		delete(task.Pod.Annotations, key)
	} else {
		task.Pod.Annotations[key] = *before
	}
}
