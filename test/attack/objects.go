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
	// size is the number of pods, min the minimum; the size when 0.
	size, min int
	// cpu is what each pod asks for, "1" when empty.
	cpu string
	// queue is the queue, "default" when empty, class the priority class of PodGroup and pods.
	queue, class string
	// group and pod change the objects, when not nil.
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

// newPod returns a pod that asks for one cpu.
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

// ask sets a request of the pod; extended resources need the same limit.
func ask(pod *corev1.Pod, name corev1.ResourceName, amount string) {
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests[name] = resource.MustParse(amount)
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		resources.Limits[name] = resource.MustParse(amount)
	}
}

// on has the pod run on the node alone.
func on(pod *corev1.Pod, node string) { pod.Spec.NodeSelector[corev1.LabelHostname] = node }

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// starving returns a gang that needs all nodes for itself and so waits while any pod runs.
func starving(name string) gang { return gang{name: name, size: nodeCount, cpu: nodeCPU} }

// impossible returns a gang that no state of the cluster could hold, though each of its pods fits a node.
func impossible(name string) gang { return gang{name: name, size: nodeCount + 1, cpu: nodeCPU} }
