// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// StageAnnotation sets an annotation of a pending task. Once the task is handed over, the annotation is in the books for later sessions,
// and is written with the Binding. It replaces any value that the pod then has, because users may change the annotations of
// pending pods. Annotations that plugins set on task.Pod directly are written only where they differ from the pod's.
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

// UnstageAnnotation reverts StageAnnotation for the key, if it was called.
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
