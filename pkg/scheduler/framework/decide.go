// SPDX-License-Identifier: Apache-2.0

package framework

import "volcano.sh/volcano/pkg/scheduler/api"

// Decide sets an annotation of a task that waits. Once the task is handed over it is in the books of sessions to come, and it travels in the
// Binding, whatever the pod has under that key by then: anybody may write the annotations of pods that wait. What plugins set on
// task.Pod by themselves travels only where it differs from what the pod had.
func (ssn *Session) Decide(task *api.TaskInfo, key, value string) {
	of := ssn.decisions[task.UID]
	if of == nil {
		of = map[string]*string{}
		ssn.decisions[task.UID] = of
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

// Undecide takes back what was decided under the key, if anything was.
func (ssn *Session) Undecide(task *api.TaskInfo, key string) {
	before, decided := ssn.decisions[task.UID][key]
	if !decided {
		return
	}
	delete(ssn.decisions[task.UID], key)
	if before == nil {
		delete(task.Pod.Annotations, key)
	} else {
		task.Pod.Annotations[key] = *before
	}
}
