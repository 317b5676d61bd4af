// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
)

// claimKeys are functions that return a plugin's key of a claim; claims with equal keys are equivalent. They are the
// methods VolumeKey and ClaimKey of framework.Signers.
type claimKeys struct {
	volume func(pod *v1.Pod, volume *v1.Volume) (string, bool)
	device func(pod *v1.Pod, claim *v1.PodResourceClaim) (string, bool)
}

// A class key encodes everything that filter results on a task may depend on except its identity: equal bytes mean equal tasks.
// Fields have a fixed length or begin with their length, lists and maps begin with their number of entries, and optional
// values with a flag, so that different tasks cannot have the same key.

// appendClassKey appends the class key of the task.
func appendClassKey(b []byte, task *api.TaskInfo, labels *selectorLabelKeys, claims claimKeys, facts *taskFacts) []byte {
	pod := task.Pod
	b = keybytes.Text(b, task.Namespace, task.TaskRole, task.RevocableZone)
	b = keybytes.Flag(keybytes.Int(b, task.Priority), task.Preemptable)
	b = labels.appendLabels(b, task.Namespace, pod.Labels)
	b = labels.appendAnnotations(b, pod.Annotations)
	b = append(b, facts.key...)
	if facts.plain {
		return append(b, 0, 0) // a plain pod has no device claims and no volumes to encode
	}
	return appendVolumes(appendResourceClaims(b, pod, claims), pod, claims)
}

// appendResourceClaims appends the pod's resource claims. For each it appends the key that a plugin returns for the
// claim (claimKeys), or the whole claim if no plugin returns a key.
func appendResourceClaims(b []byte, pod *v1.Pod, claims claimKeys) []byte {
	b = keybytes.Int(b, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		key, ok := claims.device(pod, claim)
		if b = keybytes.Flag(b, ok); ok {
			b = keybytes.Text(b, key)
		} else {
			b = appendMessage(b, claim)
		}
	}
	return b
}

// appendVolumes appends the pod's volumes, except volumes that the kubelet can create on every node. For a volume with
// a claim it appends the key that a plugin returns for the claim (claimKeys). It appends the whole volume if no plugin
// returns a key.
func appendVolumes(b []byte, pod *v1.Pod, claims claimKeys) []byte {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if madeOnNode(volume) {
			continue
		}
		key, ok := claims.volume(pod, volume)
		if b = keybytes.Flag(b, true, ok); ok {
			b = keybytes.Text(b, key)
		} else {
			b = appendMessage(b, volume)
		}
	}
	return keybytes.Flag(b, false)
}

func appendPodSpec(b []byte, spec *v1.PodSpec) []byte {
	b = keybytes.Map(b, spec.NodeSelector)
	b = keybytes.Text(b, spec.PriorityClassName)
	b = appendOptional(b, spec.Priority, func(b []byte, priority int32) []byte { return keybytes.Int(b, priority) })
	b = keybytes.Flag(b, spec.HostNetwork)
	b = appendOptional(b, spec.RuntimeClassName, func(b []byte, class string) []byte { return keybytes.Text(b, class) })
	b = appendOptional(b, spec.Affinity, func(b []byte, affinity v1.Affinity) []byte { return appendMessage(b, &affinity) })
	b = appendMessages(b, len(spec.Tolerations), func(i int) message { return &spec.Tolerations[i] })
	b = appendMessages(b, len(spec.TopologySpreadConstraints), func(i int) message { return &spec.TopologySpreadConstraints[i] })
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		b = keybytes.Int(b, len(containers))
		for i := range containers {
			b = appendContainer(b, &containers[i])
		}
	}
	b = appendList(b, spec.Overhead)
	b = keybytes.Flag(b, spec.Resources != nil) // pod-level resources (KEP-2837)
	if spec.Resources != nil {
		b = appendResources(b, spec.Resources)
	}
	return b
}

func appendContainer(b []byte, c *v1.Container) []byte {
	b = keybytes.Text(b, c.Image)
	b = appendResources(b, &c.Resources)
	// An init container with a restart policy is a sidecar (KEP-753): its requests are added to the requests of the
	// containers. Any other init container ends before the containers start.
	b = appendOptional(b, c.RestartPolicy, func(b []byte, policy v1.ContainerRestartPolicy) []byte { return keybytes.Text(b, string(policy)) })
	for i := range c.Ports {
		if c.Ports[i].HostPort != 0 {
			b = appendMessage(keybytes.Flag(b, true), &c.Ports[i])
		}
	}
	return keybytes.Flag(b, false)
}

// madeOnNode reports whether the kubelet can create the volume on every node.
func madeOnNode(volume *v1.Volume) bool {
	source := &volume.VolumeSource
	return source.EmptyDir != nil || source.HostPath != nil || source.Secret != nil || source.ConfigMap != nil || source.DownwardAPI != nil || source.Projected != nil
}

// appendOptional appends a flag that says whether v is nil, and then the value that v points to.
func appendOptional[T any](b []byte, v *T, appendValue func([]byte, T) []byte) []byte {
	if v == nil {
		return keybytes.Flag(b, false)
	}
	return appendValue(keybytes.Flag(b, true), *v)
}

func appendResource(b []byte, r *api.Resource) []byte {
	return appendAmounts(keybytes.Float(b, r.MilliCPU, r.Memory), r.ScalarResources, func(b []byte, amount float64) []byte { return keybytes.Float(b, amount) })
}

func appendList(b []byte, list v1.ResourceList) []byte {
	return appendAmounts(b, list, func(b []byte, amount resource.Quantity) []byte { return keybytes.Int(b, amount.MilliValue()) })
}

// appendAmounts appends amounts of resources, in the order of their names.
func appendAmounts[V any](b []byte, amounts map[v1.ResourceName]V, appendAmount func([]byte, V) []byte) []byte {
	if len(amounts) == 0 {
		return append(b, 0)
	}
	var room [16]v1.ResourceName
	names := namesOf(amounts, room[:0])
	b = keybytes.Int(b, len(names))
	for _, name := range names {
		b = appendAmount(keybytes.Text(b, string(name)), amounts[name])
	}
	return b
}

// usualNames are the only resources that most pods request, sorted.
var usualNames = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}

// namesOf appends the names of the resources, sorted. Looking up usualNames takes less time than iterating over a map.
func namesOf[V any](resources map[v1.ResourceName]V, names []v1.ResourceName) []v1.ResourceName {
	for _, name := range usualNames {
		if _, ok := resources[name]; ok {
			names = append(names, name)
		}
	}
	if len(names) < len(resources) {
		names = slices.AppendSeq(names[:0], maps.Keys(resources))
		slices.Sort(names)
	}
	return names
}

func appendResources(b []byte, r *v1.ResourceRequirements) []byte {
	b = appendList(appendList(b, r.Requests), r.Limits)
	return appendMessages(b, len(r.Claims), func(i int) message { return &r.Claims[i] })
}

// message is a Kubernetes API object, whose protobuf form is the same for equal objects.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

func appendMessage(b []byte, m message) []byte {
	size := m.Size()
	b = keybytes.Int(b, size)
	start := len(b)
	b = slices.Grow(b, size)[:start+size]
	if _, err := m.MarshalToSizedBuffer(b[start:]); err != nil {
		panic(err) // cannot happen: the buffer has the size that the message reported
	}
	return b
}

// appendMessages appends n messages; at returns the message with index i.
func appendMessages(b []byte, n int, at func(i int) message) []byte {
	b = keybytes.Int(b, n)
	for i := range n {
		b = appendMessage(b, at(i))
	}
	return b
}
