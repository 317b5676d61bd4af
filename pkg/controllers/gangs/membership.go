// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/helpers"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	// prefix begins the annotations that only this controller writes.
	prefix = "coscheduling.volcano-prebind.io/"
	// gangAnnotation on a pod is the gang that the controller gave it in scheduling.k8s.io/group-name.
	gangAnnotation = prefix + "gang"
	// schedulerAnnotation on such a PodGroup is the scheduler of its pods: controllers of other schedulers leave it alone.
	schedulerAnnotation = prefix + "scheduler"
	// messageAnnotation has the errors in an object's settings, and why a gang waits.
	messageAnnotation = prefix + "message"

	// pluginsLabel is how pods name PodGroups of scheduler-plugins.
	pluginsLabel = "scheduling.x-k8s.io/pod-group"
)

// Names of indexes of pods, by namespace/name.
const (
	// byGang: of the gang that the pod names.
	byGang = "gang"
	// byOwnGroup: of the PodGroup that upstream's controller would make for a pod that names a gang.
	byOwnGroup = "own-group"
	// byGroup: of such a PodGroup that the pod, whether it names a gang or not, is in.
	byGroup = "group"
)

// said is one of the places where a pod names its gang.
type said struct{ field, name string }

// namesOf are the gangs that a pod names; the first counts.
func namesOf(pod *corev1.Pod) []said {
	all := []said{
		{gangs.PodGroupLabel, pod.Labels[gangs.PodGroupLabel]}, {gangs.OldNameLabel, pod.Labels[gangs.OldNameLabel]},
		{gangs.NameAnnotation, pod.Annotations[gangs.NameAnnotation]}, {pluginsLabel, pod.Labels[pluginsLabel]},
	}
	return slices.DeleteFunc(all, func(s said) bool { return s.name == "" })
}

// nameOf is the gang that a pod names; empty if it names none.
func nameOf(pod *corev1.Pod) string {
	if names := namesOf(pod); len(names) > 0 {
		return names[0].name
	}
	return ""
}

// Claims is true for a pod that names a gang in a way that this controller knows.
func Claims(pod *corev1.Pod) bool { return nameOf(pod) != "" }

// needsObject is true for a pod that names an object, which says what the gang is.
func needsObject(pod *corev1.Pod) bool {
	names := namesOf(pod)
	return len(names) > 0 && (names[0].field == gangs.PodGroupLabel || names[0].field == pluginsLabel)
}

// astray is true for a pod that its user put in another PodGroup, in the annotation that is Volcano's: it is explicit and wins. What
// this controller or upstream's wrote there does not count.
func astray(pod *corev1.Pod) bool {
	group := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]
	return group != "" && group != nameOf(pod) && group != pod.Annotations[gangAnnotation] && group != helpers.GeneratePodgroupName(pod)
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// byAge orders pods by creation time, then by name.
func byAge(l, r *corev1.Pod) int {
	if c := l.CreationTimestamp.Compare(r.CreationTimestamp.Time); c != 0 {
		return c
	}
	return cmp.Compare(l.Name, r.Name)
}

// indexers index the pods of these schedulers.
func indexers(ours func(*corev1.Pod) bool) cache.Indexers {
	index := func(of func(*corev1.Pod) string) cache.IndexFunc {
		return func(object any) ([]string, error) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return nil, nil
			}
			if name := of(pod); name != "" {
				return []string{pod.Namespace + "/" + name}, nil
			}
			return nil, nil
		}
	}
	return cache.Indexers{
		byGang: index(func(pod *corev1.Pod) string {
			if !ours(pod) {
				return ""
			}
			return nameOf(pod)
		}),
		byOwnGroup: index(func(pod *corev1.Pod) string {
			if !ours(pod) || !Claims(pod) {
				return ""
			}
			return helpers.GeneratePodgroupName(pod)
		}),
		byGroup: index(func(pod *corev1.Pod) string {
			if name := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]; name == helpers.GeneratePodgroupName(pod) {
				return name
			}
			return ""
		}),
	}
}
