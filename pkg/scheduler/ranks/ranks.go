// SPDX-License-Identifier: Apache-2.0

// Package ranks orders the members of a gang by rank, as frameworks such as MPI number them: by the number that the
// user gives, else by the index that the pod's controller gives, else by name. Plugins use the order to place neighbors
// close to each other.
package ranks

import (
	"cmp"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// Labels that other controllers write on their pods.
const (
	kubeflowIndex  = "training.kubeflow.org/replica-index"
	kubeflowRole   = "training.kubeflow.org/replica-type"
	lwsWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
)

// Ranks orders members by rank, and caches each member's rank. It is not safe for concurrent use.
type Ranks struct{ known map[api.TaskID]rank }

// rank is a member's position in its gang. Members that the user has numbered come first, by that number. The others
// are grouped by role, then by part of the role (for example one of several Jobs), then by index. Members without an
// index come last, by name.
type rank struct {
	numbered   bool
	number     uint64
	role, part string
	indexed    bool
	index      uint64
	name       string
}

// New returns empty Ranks.
func New() *Ranks { return &Ranks{known: map[api.TaskID]rank{}} }

// Compare returns a negative number if the left member has the lower rank, and 0 only for the same member.
func (r *Ranks) Compare(left, right *api.TaskInfo) int {
	l, m := r.of(left), r.of(right)
	return cmp.Or(
		compareBool(m.numbered, l.numbered),
		cmp.Compare(l.number, m.number),
		compareNaturally(l.role, m.role),
		compareNaturally(l.part, m.part),
		compareBool(m.indexed, l.indexed),
		cmp.Compare(l.index, m.index),
		compareNaturally(l.name, m.name),
		cmp.Compare(left.UID, right.UID),
	)
}

func (r *Ranks) of(task *api.TaskInfo) rank {
	known, ok := r.known[task.UID]
	if !ok {
		known = rankOf(task)
		r.known[task.UID] = known
	}
	return known
}

func rankOf(task *api.TaskInfo) rank {
	pod := task.Pod
	r := rank{role: task.TaskRole, name: task.Name}
	if number, err := strconv.ParseUint(pod.Annotations[gangs.TopologyIndexAnnotation], 10, 64); err == nil {
		r.numbered, r.number = true, number
	}
	if r.role == "" {
		r.role = pod.Labels[kubeflowRole]
	}
	if group, ok := pod.Labels[lwsGroupIndex]; ok {
		r.part = group
	} else if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		r.part = owner.Name
	}
	for _, text := range indexes(pod) {
		if index, err := strconv.ParseUint(text, 10, 64); err == nil {
			r.index, r.indexed = index, true
			break
		}
	}
	return r
}

// indexes returns the values of the pod's labels and annotations that may be its index, the most reliable source first.
func indexes(pod *v1.Pod) [6]string {
	return [...]string{
		pod.Annotations[batchv1.JobCompletionIndexAnnotation], pod.Labels[batchv1.JobCompletionIndexAnnotation],
		pod.Labels[kubeflowIndex],
		pod.Labels[lwsWorkerIndex],
		pod.Annotations[batchv1alpha1.TaskIndex], pod.Labels[batchv1alpha1.TaskIndex],
	}
}

func compareBool(l, r bool) int {
	switch {
	case l == r:
		return 0
	case l:
		return 1
	default:
		return -1
	}
}

// compareNaturally compares runs of digits as numbers, so that "pod-2" comes before "pod-10".
func compareNaturally(l, r string) int {
	rest, other := l, r
	for rest != "" && other != "" {
		n, m := digits(rest), digits(other)
		if n > 0 && m > 0 {
			a, b := strings.TrimLeft(rest[:n], "0"), strings.TrimLeft(other[:m], "0")
			if order := cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)); order != 0 {
				return order
			}
			rest, other = rest[n:], other[m:]
			continue
		}
		if rest[0] != other[0] {
			return cmp.Compare(rest[0], other[0])
		}
		rest, other = rest[1:], other[1:]
	}
	return cmp.Or(cmp.Compare(len(rest), len(other)), strings.Compare(l, r))
}

// digits returns the number of digits at the beginning of the text.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
