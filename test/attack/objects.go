// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// gang is a PodGroup and its pods.
type gang struct {
	name string
	// size is the number of pods, and min the minimum. If min is 0, it equals the size.
	size, min int
	// cpu is the request of each pod. An empty value means "1".
	cpu string
	// queue is the queue, "default" if empty. class is the priority class of PodGroup and pods.
	queue, class string
	// group and pod, if not nil, change the objects.
	group func(*v1beta1.PodGroup)
	pod   func(i int, pod *corev1.Pod)
}

func (g gang) podGroup() *v1beta1.PodGroup {
	group := &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: g.name, Annotations: map[string]string{}},
		Spec:       v1beta1.PodGroupSpec{MinMember: int32(g.min), Queue: g.queue, PriorityClassName: g.class},
	}
	if g.min == 0 {
		group.Spec.MinMember = int32(g.size)
	}
	if g.group != nil {
		g.group(group)
	}
	return group
}

func (g gang) member(i int) *corev1.Pod {
	pod := newPod(fmt.Sprintf("%s-%d", g.name, i))
	pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = g.name
	pod.Spec.PriorityClassName = g.class
	if g.cpu != "" {
		ask(pod, corev1.ResourceCPU, g.cpu)
	}
	if g.pod != nil {
		g.pod(i, pod)
	}
	return pod
}

// newPod returns a pod that requests one CPU.
func newPod(name string) *corev1.Pod {
	noToken, noGrace := false, int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &noToken, TerminationGracePeriodSeconds: &noGrace,
			NodeSelector: map[string]string{},
			Containers: []corev1.Container{{
				Name: "main", Image: "simulated", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, Limits: corev1.ResourceList{},
				},
			}},
		},
	}
}

// ask sets a request of the pod. Extended resources also need an equal limit.
func ask(pod *corev1.Pod, name corev1.ResourceName, amount string) {
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests[name] = resource.MustParse(amount)
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		resources.Limits[name] = resource.MustParse(amount)
	}
}

// on makes the pod run on this node only.
func on(pod *corev1.Pod, node string) { pod.Spec.NodeSelector[corev1.LabelHostname] = node }

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// starving returns a gang that needs all nodes for itself, so it waits while any other pod runs.
func starving(name string) gang { return gang{name: name, size: nodeCount, cpu: nodeCPU} }

// impossible returns a gang that the cluster can never hold, although each of its pods fits a node.
func impossible(name string) gang { return gang{name: name, size: nodeCount + 1, cpu: nodeCPU} }
