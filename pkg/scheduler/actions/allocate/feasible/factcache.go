// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"crypto/sha256"
	"hash/maphash"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// FactCache keeps facts that derive from the requests and pod specs of tasks (taskFacts), from one session to the next.
// Computing them again in each session would be too slow for 10,000 waiting gangs.
//
// A task is identified by its pointer: the next session gets the same pointer only if neither its pod nor the task has
// changed (package snapshot), and no session changes the spec of a waiting pod. Tasks that a session does not use are
// dropped when the next session begins.
type FactCache struct {
	// Seed is the seed of all hashes that are compared between sessions.
	Seed  maphash.Seed
	tasks map[*api.TaskInfo]*taskFacts
	// session is the number of the current session. asked is how many tasks' facts the current session has used.
	session uint64
	asked   int
	// distinct are the task keys (taskFacts.key) that were made in the session. Equal keys share one string.
	distinct map[string]string
	buffer   []byte
	// classes is how many task classes the last session had. Maps of the next session are created with this size.
	classes int
}

// taskFacts are the facts about a task that derive from its requests and its pod's spec.
type taskFacts struct {
	// key is the part of the class key that encodes the task's requests and its pod's spec, or the digest of that part if
	// it is long.
	key string
	// plain reports whether the pod has no affinity, topology spread, claims, or volumes except volumes that a kubelet
	// can create on every node.
	plain bool
	// session is the number of the last session that used the task's facts.
	session uint64
}

// NewFactCache returns an empty cache.
func NewFactCache() *FactCache {
	return &FactCache{Seed: maphash.MakeSeed(), tasks: map[*api.TaskInfo]*taskFacts{}}
}

// beginSession starts a session, and drops the facts of tasks that the last session did not use.
func (m *FactCache) beginSession() {
	if m.asked < len(m.tasks) {
		maps.DeleteFunc(m.tasks, func(_ *api.TaskInfo, facts *taskFacts) bool { return facts.session != m.session })
	}
	m.session, m.asked, m.distinct = m.session+1, 0, map[string]string{}
}

// factsOf returns the facts about the task.
func (m *FactCache) factsOf(task *api.TaskInfo) *taskFacts {
	facts, ok := m.tasks[task]
	if !ok {
		facts = &taskFacts{key: m.makeKey(task), plain: isPlain(&task.Pod.Spec)}
		m.tasks[task] = facts
	}
	if facts.session != m.session {
		facts.session = m.session
		m.asked++
	}
	return facts
}

// longestKey bounds the part of a class key that encodes a pod's spec, in bytes. Affinity alone can take 100 kB, and
// each class key would repeat it.
const longestKey = 1024

// makeKey encodes the task's requests and its pod's spec. If the result is too long, makeKey returns a digest of it.
func (m *FactCache) makeKey(task *api.TaskInfo) string {
	b := appendResource(appendResource(keybytes.Flag(m.buffer[:0], false), task.Resreq), task.InitResreq)
	if b = appendPodSpec(b, &task.Pod.Spec); len(b) > longestKey {
		digest := sha256.Sum256(b)
		b = append(keybytes.Flag(b[:0], true), digest[:]...)
	}
	m.buffer = b
	key, ok := m.distinct[string(m.buffer)]
	if !ok {
		key = string(m.buffer)
		m.distinct[key] = key
	}
	return key
}

func isPlain(spec *v1.PodSpec) bool {
	return spec.Affinity == nil && len(spec.TopologySpreadConstraints) == 0 && len(spec.ResourceClaims) == 0 &&
		!slices.ContainsFunc(spec.Volumes, func(volume v1.Volume) bool { return !madeOnNode(&volume) })
}
