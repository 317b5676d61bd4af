// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"hash/maphash"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Memory keeps data on tasks from one session to the next: the part of a task's class key that follows from its requests and its
// pod's spec. Otherwise it would be computed again in each session, for 10,000 waiting gangs.
//
// A task is identified by its pointer: the next session is given the same one only if neither its pod nor the task has changed
// (package snapshot), and no session changes the spec of a waiting pod. Tasks that a session does not ask for are dropped after
// it.
type Memory struct {
	// Seed is the seed of all hashes that are compared between sessions.
	Seed maphash.Seed
	// keys are the key parts by task, former the ones of the last session. Equal keys share one string.
	keys, former map[*api.TaskInfo]string
	distinct     map[string]string
	// classes is how many classes the last session had.
	classes int
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{Seed: maphash.MakeSeed()}
}

// begin begins a session with so many tasks, and drops entries that the last session did not use.
func (m *Memory) begin(tasks int) {
	m.former, m.keys = m.keys, make(map[*api.TaskInfo]string, tasks)
	m.distinct = map[string]string{}
}

// appendKey appends the task's requests and its pod's spec.
func (m *Memory) appendKey(b []byte, task *api.TaskInfo) []byte {
	key, ok := m.former[task]
	if !ok {
		from := len(b)
		b = appendPodSpec(appendResource(appendResource(b, task.Resreq), task.InitResreq), &task.Pod.Spec)
		if key, ok = m.distinct[string(b[from:])]; !ok {
			key = string(b[from:])
			m.distinct[key] = key
		}
		b = b[:from]
	}
	m.keys[task] = key
	return append(b, key...)
}
