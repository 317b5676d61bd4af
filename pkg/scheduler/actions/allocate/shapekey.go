// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// identityKeys are labels and annotations that tell the pods of one workload, or equal workloads, apart and that no
// plugin's verdict on a node depends on.
var identityKeys = map[string]bool{
	"scheduling.k8s.io/group-name":                     true,
	"scheduling.volcano.sh/group-name":                 true,
	"volcano.sh/job-name":                              true,
	"volcano.sh/job-namespace":                         true,
	"volcano.sh/job-version":                           true,
	"volcano.sh/job-retry-count":                       true,
	"volcano.sh/task-index":                            true,
	"volcano.sh/template-uid":                          true,
	"volcano.sh/partition-id":                          true,
	"job-name":                                         true,
	"controller-uid":                                   true,
	"batch.kubernetes.io/job-name":                     true,
	"batch.kubernetes.io/controller-uid":               true,
	"batch.kubernetes.io/job-completion-index":         true,
	"apps.kubernetes.io/pod-index":                     true,
	"statefulset.kubernetes.io/pod-name":               true,
	"controller-revision-hash":                         true,
	"jobset.sigs.k8s.io/jobset-name":                   true,
	"jobset.sigs.k8s.io/jobset-uid":                    true,
	"jobset.sigs.k8s.io/job-index":                     true,
	"jobset.sigs.k8s.io/job-key":                       true,
	"jobset.sigs.k8s.io/job-global-index":              true,
	"jobset.sigs.k8s.io/restart-attempt":               true,
	"training.kubeflow.org/job-name":                   true,
	"training.kubeflow.org/replica-index":              true,
	"leaderworkerset.sigs.k8s.io/name":                 true,
	"leaderworkerset.sigs.k8s.io/group-index":          true,
	"leaderworkerset.sigs.k8s.io/group-key":            true,
	"leaderworkerset.sigs.k8s.io/worker-index":         true,
	"leaderworkerset.sigs.k8s.io/leader-name":          true,
	"kubectl.kubernetes.io/last-applied-configuration": true,
}

// appendShape appends all that verdicts on the task may depend on besides its identity. Equal bytes mean equal tasks.
// Labels in telling are none of its identity.
func appendShape(b []byte, task *api.TaskInfo, telling map[string]bool) []byte {
	pod := task.Pod
	b = appendString(b, task.Namespace)
	b = appendString(b, task.TaskRole)
	b = appendString(b, task.RevocableZone)
	b = binary.AppendVarint(b, int64(task.Priority))
	b = appendBool(b, task.Preemptable)
	b = appendResource(b, task.Resreq)
	b = appendResource(b, task.InitResreq)
	b = appendMap(b, pod.Labels, telling)
	b = appendMap(b, pod.Annotations, nil)
	return appendPodSpec(b, &pod.Spec)
}

func appendPodSpec(b []byte, spec *v1.PodSpec) []byte {
	b = appendMap(b, spec.NodeSelector, nil)
	b = appendString(b, spec.PriorityClassName)
	b = appendBool(b, spec.HostNetwork)
	if spec.RuntimeClassName != nil {
		b = appendString(b, *spec.RuntimeClassName)
	}
	if spec.Affinity != nil {
		b = appendMessage(b, spec.Affinity)
	}
	b = append(b, '|')
	for i := range spec.Tolerations {
		b = appendMessage(b, &spec.Tolerations[i])
	}
	b = append(b, '|')
	for i := range spec.TopologySpreadConstraints {
		b = appendMessage(b, &spec.TopologySpreadConstraints[i])
	}
	b = append(b, '|')
	for i := range spec.ResourceClaims {
		b = appendMessage(b, &spec.ResourceClaims[i])
	}
	b = append(b, '|')
	for i := range spec.Volumes {
		if volume := &spec.Volumes[i]; !madeOnNode(volume) {
			b = appendMessage(b, volume)
		}
	}
	b = append(b, '|')
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			b = appendString(b, c.Image)
			b = appendList(b, c.Resources.Requests)
			b = appendList(b, c.Resources.Limits)
			b = appendBool(b, c.RestartPolicy != nil)
			for j := range c.Ports {
				if c.Ports[j].HostPort != 0 {
					b = appendMessage(b, &c.Ports[j])
				}
			}
			b = append(b, ';')
		}
		b = append(b, '|')
	}
	b = appendList(b, spec.Overhead)
	if spec.Resources != nil {
		b = appendList(b, spec.Resources.Requests)
		b = appendList(b, spec.Resources.Limits)
	}
	return b
}

// madeOnNode says whether the kubelet makes the volume wherever the pod is.
func madeOnNode(volume *v1.Volume) bool {
	source := &volume.VolumeSource
	return source.EmptyDir != nil || source.HostPath != nil || source.Secret != nil || source.ConfigMap != nil || source.DownwardAPI != nil || source.Projected != nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// appendMap appends the entries that are not of the pod's identity.
func appendMap(b []byte, m map[string]string, telling map[string]bool) []byte {
	var room [16]string
	keys := room[:0]
	for key := range m {
		if !identityKeys[key] || telling[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = appendString(appendString(b, key), m[key])
	}
	return b
}

func appendResource(b []byte, r *api.Resource) []byte {
	b = appendFloat(appendFloat(b, r.MilliCPU), r.Memory)
	var room [16]v1.ResourceName
	names := slices.AppendSeq(room[:0], maps.Keys(r.ScalarResources))
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendFloat(appendString(b, string(name)), r.ScalarResources[name])
	}
	return b
}

func appendList(b []byte, list v1.ResourceList) []byte {
	var room [16]v1.ResourceName
	names := slices.AppendSeq(room[:0], maps.Keys(list))
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		quantity := list[name]
		b = appendString(b, string(name))
		b = binary.AppendVarint(b, quantity.MilliValue())
	}
	return b
}

// message is a Kubernetes API object, whose protobuf form is the same for equal objects.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

func appendMessage(b []byte, m message) []byte {
	size := m.Size()
	b = binary.AppendUvarint(b, uint64(size))
	start := len(b)
	b = slices.Grow(b, size)[:start+size]
	if _, err := m.MarshalToSizedBuffer(b[start:]); err != nil {
		panic(err) // a buffer of the size it asked for
	}
	return b
}

// tellingLabels are the labels that required anti-affinity of pods on nodes, and of pods to be placed, selects by: they
// tell pods apart where they otherwise only name them.
func tellingLabels(ssn *framework.Session) map[string]bool {
	keys := map[string]bool{}
	add := func(pod *v1.Pod) {
		if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
			for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				addKeys(keys, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector)
			}
		}
	}
	for _, node := range ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			add(info.GetPod())
		}
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			add(task.Pod)
		}
	}
	return keys
}

func addKeys(keys map[string]bool, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key := range selector.MatchLabels {
		keys[key] = true
	}
	for i := range selector.MatchExpressions {
		keys[selector.MatchExpressions[i].Key] = true
	}
}
