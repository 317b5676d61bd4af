// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// saying has annotations of the plugin, and the object from which they were read.
type saying struct {
	annotations map[string]string
	// pod is the name of the pod that has the annotations; empty if the PodGroup has them.
	pod string
}

// on returns the text that follows the key of an annotation in a message: it names the pod, or is empty for a
// PodGroup.
func (s saying) on() string {
	if s.pod == "" {
		return ""
	}
	return " of pod " + s.pod
}

// sayingOf returns the plugin's annotations that apply to the job. If the PodGroup has such annotations, they apply.
// Otherwise the pods' annotations apply, because workloads have templates for pods but not for PodGroups. A pod
// without such annotations follows the other pods. If pods have different annotations, sayingOf returns an error.
//
// Pending pods take precedence over placed pods, because placed pods have the former annotations while a StatefulSet
// is updated. If no pending pod has annotations of the plugin, the annotations of placed pods apply if they are
// equal.
func sayingOf(job *api.JobInfo) (saying, error) {
	if hasAny(job.PodGroup.Annotations) {
		return saying{annotations: own(job.PodGroup.Annotations)}, nil
	}
	if said, other := sayingAmong(job.TaskStatusIndex[api.Pending]); other != nil {
		key := firstDifference(said.annotations, other.Pod.Annotations)
		return said, fmt.Errorf("annotation %s differs: %s on pod %s, %s on pod %s; set the same value on all pods of the gang, or annotate the PodGroup",
			brief.Cut(key, maxKey), valueIn(said.annotations, key), said.pod, valueIn(other.Pod.Annotations, key), other.Name)
	} else if said.pod != "" {
		return said, nil
	}
	var among saying
	for _, status := range placed {
		switch said, other := sayingAmong(job.TaskStatusIndex[status]); {
		case said.pod == "":
		case other != nil, among.pod != "" && !maps.Equal(said.annotations, among.annotations):
			return saying{}, nil
		default:
			among = said
		}
	}
	return among, nil
}

// sayingAmong returns the plugin's annotations of the first task, by name, that has any. other is the first task, by
// name, with different annotations of the plugin; nil if there is none.
func sayingAmong(tasks api.TasksMap) (said saying, other *api.TaskInfo) {
	speaker := firstByName(tasks, func(task *api.TaskInfo) bool { return hasAny(task.Pod.Annotations) })
	if speaker == nil {
		return saying{}, nil
	}
	said = saying{annotations: own(speaker.Pod.Annotations), pod: speaker.Name}
	return said, firstByName(tasks, func(task *api.TaskInfo) bool { return contradicts(task.Pod.Annotations, said.annotations) })
}

// untaken returns a message about an annotation of a pending pod that is ignored, because the PodGroup's annotations
// differ; empty if no annotation is ignored.
func (s saying) untaken(job *api.JobInfo) string {
	if s.pod != "" || len(s.annotations) == 0 {
		return ""
	}
	other := firstByName(job.TaskStatusIndex[api.Pending], func(task *api.TaskInfo) bool { return contradicts(task.Pod.Annotations, s.annotations) })
	if other == nil {
		return ""
	}
	key := firstDifference(s.annotations, other.Pod.Annotations)
	return fmt.Sprintf("annotation %s: value %s on pod %s is ignored: annotations of the PodGroup take precedence, which has %s; remove it from the pod, or annotate the PodGroup",
		brief.Cut(key, maxKey), valueIn(other.Pod.Annotations, key), other.Name, valueIn(s.annotations, key))
}

// groupNameOf returns the affinity group of a job without parsing other annotations. If the PodGroup has annotations
// of the plugin, they decide. Otherwise it is the first affinity group, by name, that a pod of the job names.
func groupNameOf(job *api.JobInfo) string {
	if hasAny(job.PodGroup.Annotations) {
		return job.PodGroup.Annotations[AffinityGroupAnnotation]
	}
	first := ""
	for _, task := range job.Tasks {
		if name := task.Pod.Annotations[AffinityGroupAnnotation]; name != "" && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

func hasAny(annotations map[string]string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			return true
		}
	}
	return false
}

func own(annotations map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			found[key] = value
		}
	}
	return found
}

// contradicts reports whether annotations has at least one annotation of the plugin, and its annotations of the
// plugin differ from said. It allocates no memory, because it is called for every pending pod in every session.
func contradicts(annotations, said map[string]string) bool {
	same := 0
	for key, value := range annotations {
		if !strings.HasPrefix(key, annotationPrefix) {
			continue
		}
		if wanted, ok := said[key]; !ok || wanted != value {
			return true
		}
		same++
	}
	return same > 0 && same < len(said)
}

// firstDifference returns the first key of the plugin's annotations that has different values in said and
// annotations.
func firstDifference(said, annotations map[string]string) string {
	others := own(annotations)
	keys := slices.Sorted(maps.Keys(said))
	for _, key := range slices.Sorted(maps.Keys(others)) {
		if _, ok := said[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		l, left := said[key]
		if r, right := others[key]; left != right || l != r {
			return key
		}
	}
	return ""
}

func firstByName(tasks api.TasksMap, matches func(*api.TaskInfo) bool) (first *api.TaskInfo) {
	for _, task := range tasks {
		if (first == nil || task.Name < first.Name) && matches(task) {
			first = task
		}
	}
	return first
}

func valueIn(annotations map[string]string, key string) string {
	value, ok := annotations[key]
	if !ok {
		return "nothing"
	}
	return brief.Value(value)
}
