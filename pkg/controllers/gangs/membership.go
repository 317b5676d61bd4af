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
	// prefix is the prefix of the annotations that only this controller writes.
	prefix = "coscheduling.volcano-prebind.io/"
	// gangAnnotation is on pods whose annotation scheduling.k8s.io/group-name this controller has written. It has the
	// same value: the name of the gang.
	gangAnnotation = prefix + "gang"
	// schedulerAnnotation is on Volcano PodGroups that this controller has created. Its value is the scheduler of the
	// gang's pods. Gang controllers of other schedulers ignore the PodGroup.
	schedulerAnnotation = prefix + "scheduler"
	// messageAnnotation, on a pod or PodGroup, lists the errors in its settings, and the reason why its gang waits.
	messageAnnotation = prefix + "message"
	// reportedAnnotation, on a user's PodGroup, has hashes of the texts that events have reported, so that no text is
	// reported twice.
	reportedAnnotation = prefix + "reported"

	// pluginsLabel is the pod label that names a PodGroup of scheduler-plugins.
	pluginsLabel = "scheduling.x-k8s.io/pod-group"
)

// Indexes of pods. The keys are namespace/name.
const (
	// byGang lists the pods that name a gang, by that gang.
	byGang = "gang"
	// byOwnGroup lists the pods that name a gang, by the PodGroup that upstream's controller would create for the pod.
	byOwnGroup = "own-group"
	// byGroup lists pods by the PodGroup that upstream's controller has created for the pod, whether or not the pod
	// names a gang.
	byGroup = "group"
)

// said is a label or annotation in which a pod names a gang. name is the gang's name.
type said struct{ field, name string }

// namesOf returns all labels and annotations in which a pod names a gang. The pod belongs to the gang in the first one.
func namesOf(pod *corev1.Pod) []said {
	all := []said{
		{gangs.PodGroupLabel, pod.Labels[gangs.PodGroupLabel]}, {gangs.OldNameLabel, pod.Labels[gangs.OldNameLabel]},
		{gangs.NameAnnotation, pod.Annotations[gangs.NameAnnotation]}, {pluginsLabel, pod.Labels[pluginsLabel]},
	}
	return slices.DeleteFunc(all, func(s said) bool { return s.name == "" })
}

// nameOf returns the name of the gang that a pod names; empty if the pod names no gang.
func nameOf(pod *corev1.Pod) string {
	if names := namesOf(pod); len(names) > 0 {
		return names[0].name
	}
	return ""
}

// Claims reports whether the pod names a gang in one of the ways that this controller handles.
func Claims(pod *corev1.Pod) bool { return nameOf(pod) != "" }

// needsObject reports whether the pod names its gang by a label that refers to a PodGroup object. Only that object may
// then declare the gang.
func needsObject(pod *corev1.Pod) bool {
	names := namesOf(pod)
	return len(names) > 0 && (names[0].field == gangs.PodGroupLabel || names[0].field == pluginsLabel)
}

// inOtherPodGroup reports whether the user has put the pod into another PodGroup with Volcano's annotation. The user's
// annotation takes precedence over the gang that the pod names. Values that this controller or upstream's controller
// wrote into the annotation do not count.
func inOtherPodGroup(pod *corev1.Pod) bool {
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

// indexers returns the indexes of pods. ours reports whether a pod belongs to a scheduler that this controller serves.
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
