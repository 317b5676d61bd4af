// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Default names that the builders of this package use.
const (
	SchedulerName = "volcano"
	Namespace     = "ns"
	Queue         = "default"
)

// Created is the creation time of every built object.
var Created = metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))

// Resources are quantities by resource name, as written in YAML.
type Resources map[string]string

func (r Resources) list() v1.ResourceList {
	list := v1.ResourceList{}
	for name, quantity := range r {
		list[v1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return list
}

// PodBuilder builds a pod. By default the pod has phase Pending, no node, one container and the UID "namespace-name".
type PodBuilder struct{ pod v1.Pod }

// MakePod starts a pod in Namespace whose schedulerName is SchedulerName.
func MakePod() *PodBuilder {
	return &PodBuilder{v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Labels: map[string]string{}, Annotations: map[string]string{}, CreationTimestamp: Created,
		},
		Spec:   v1.PodSpec{SchedulerName: SchedulerName, Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}}
}

// Namespace puts the pod into the namespace.
func (b *PodBuilder) Namespace(namespace string) *PodBuilder { b.pod.Namespace = namespace; return b }

// Name names the pod.
func (b *PodBuilder) Name(name string) *PodBuilder { b.pod.Name = name; return b }

// UID sets the pod's UID.
func (b *PodBuilder) UID(uid string) *PodBuilder { b.pod.UID = types.UID(uid); return b }

// Group makes the pod a member of the named PodGroup.
func (b *PodBuilder) Group(group string) *PodBuilder {
	return b.Annotation(v1beta1.KubeGroupNameAnnotationKey, group)
}

// Role sets the pod's task role in the gang.
func (b *PodBuilder) Role(role string) *PodBuilder {
	return b.Annotation(batchv1alpha1.TaskSpecKey, role)
}

// Node binds the pod to the node.
func (b *PodBuilder) Node(node string) *PodBuilder { b.pod.Spec.NodeName = node; return b }

// Phase sets the pod's phase.
func (b *PodBuilder) Phase(phase v1.PodPhase) *PodBuilder { b.pod.Status.Phase = phase; return b }

// Scheduler sets the pod's schedulerName.
func (b *PodBuilder) Scheduler(name string) *PodBuilder { b.pod.Spec.SchedulerName = name; return b }

// Req sets the container's requests.
func (b *PodBuilder) Req(requests Resources) *PodBuilder {
	b.pod.Spec.Containers[0].Resources.Requests = requests.list()
	return b
}

// Limit sets the container's limits, and its requests to the same amounts.
func (b *PodBuilder) Limit(limits Resources) *PodBuilder {
	b.pod.Spec.Containers[0].Resources.Limits = limits.list()
	return b.Req(limits)
}

// NodeSelector restricts the pod to nodes with the label.
func (b *PodBuilder) NodeSelector(key, value string) *PodBuilder {
	if b.pod.Spec.NodeSelector == nil {
		b.pod.Spec.NodeSelector = map[string]string{}
	}
	b.pod.Spec.NodeSelector[key] = value
	return b
}

// Nominated sets the pod's nominated node.
func (b *PodBuilder) Nominated(node string) *PodBuilder {
	b.pod.Status.NominatedNodeName = node
	return b
}

// Priority sets the pod's priority.
func (b *PodBuilder) Priority(priority int32) *PodBuilder {
	b.pod.Spec.Priority = &priority
	return b
}

// Gate adds a scheduling gate.
func (b *PodBuilder) Gate(name string) *PodBuilder {
	b.pod.Spec.SchedulingGates = append(b.pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
	return b
}

// HostPort adds a container port with a host port of the same number.
func (b *PodBuilder) HostPort(port int32) *PodBuilder {
	b.pod.Spec.Containers[0].Ports = append(b.pod.Spec.Containers[0].Ports, v1.ContainerPort{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP})
	return b
}

// Volume adds a volume to the pod that refers to the named PersistentVolumeClaim.
func (b *PodBuilder) Volume(claim string) *PodBuilder {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	return b
}

// ResourceClaim adds a reference to the named ResourceClaim to the pod.
func (b *PodBuilder) ResourceClaim(claim string) *PodBuilder {
	b.pod.Spec.ResourceClaims = append(b.pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	resources := &b.pod.Spec.Containers[0].Resources
	resources.Claims = append(resources.Claims, v1.ResourceClaim{Name: claim})
	return b
}

// Affinity sets the pod's affinities.
func (b *PodBuilder) Affinity(affinity v1.Affinity) *PodBuilder {
	b.pod.Spec.Affinity = &affinity
	return b
}

// Label sets a label.
func (b *PodBuilder) Label(key, value string) *PodBuilder { b.pod.Labels[key] = value; return b }

// Annotation sets an annotation.
func (b *PodBuilder) Annotation(key, value string) *PodBuilder {
	b.pod.Annotations[key] = value
	return b
}

// Terminating marks the pod as being deleted.
func (b *PodBuilder) Terminating() *PodBuilder { b.pod.DeletionTimestamp = &Created; return b }

// Obj returns a copy of the pod; the builder can be used further.
func (b *PodBuilder) Obj() *v1.Pod {
	pod := b.pod.DeepCopy()
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "-" + pod.Name)
	}
	return pod
}
