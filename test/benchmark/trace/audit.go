// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// audit compares the assignments of pods with the capacity of nodes, so that a wrong result does not count.
type audit struct {
	nodes map[string]*node
	left  map[string]*remains
}

// remains has the free resources of a node. gpus are in hundredths.
type remains struct {
	milliCPU, memoryMiB int64
	gpus                []int
}

func newAudit(t *trace) *audit {
	a := &audit{nodes: map[string]*node{}, left: map[string]*remains{}}
	for i := range t.nodes {
		n := &t.nodes[i]
		left := &remains{n.milliCPU, n.memoryMiB, make([]int, n.gpus)}
		for g := range left.gpus {
			left.gpus[g] = 100
		}
		a.nodes[nodeName(i)], a.left[nodeName(i)] = n, left
	}
	return a
}

// add records the pod of the task. It returns an error if its node does not have the task's resources, or if the
// pod's annotation differs from the request.
func (a *audit) add(t task, pod *v1.Pod) error {
	name := pod.Spec.NodeName
	left := a.left[name]
	if left == nil {
		return fmt.Errorf("pod %s was placed on %q, which is no node", pod.Name, name)
	}
	if t.models != "" && !slices.Contains(strings.Split(t.models, "|"), a.nodes[name].model) {
		return fmt.Errorf("pod %s allows models %s, and was placed on node %s, which has %s", pod.Name, t.models, name, a.nodes[name].model)
	}
	left.milliCPU -= t.milliCPU
	left.memoryMiB -= t.memoryMiB
	if left.milliCPU < 0 || left.memoryMiB < 0 {
		return fmt.Errorf("node %s has not got the CPU or memory for pod %s", name, pod.Name)
	}
	minors, err := minorsOf(pod)
	if err != nil {
		return err
	}
	slices.Sort(minors)
	if distinct := len(slices.Compact(slices.Clone(minors))); distinct != t.gpus || len(minors) != t.gpus {
		return fmt.Errorf("pod %s was given GPUs %v, want %d", pod.Name, minors, t.gpus)
	}
	for _, minor := range minors {
		if minor < 0 || minor >= len(left.gpus) || left.gpus[minor] < t.share() {
			return fmt.Errorf("pod %s was given %d hundredths of GPU %d of node %s, which have left %v", pod.Name, t.share(), minor, name, left.gpus)
		}
		left.gpus[minor] -= t.share()
	}
	return nil
}

// minorsOf returns the GPUs in the pod's annotation.
func minorsOf(pod *v1.Pod) ([]int, error) {
	text, ok := pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
	if !ok {
		return nil, nil
	}
	var devices map[schedulingv1alpha1.DeviceType][]struct{ Minor int }
	if err := json.Unmarshal([]byte(text), &devices); err != nil {
		return nil, fmt.Errorf("pod %s has the devices %q: %w", pod.Name, text, err)
	}
	var minors []int
	for _, d := range devices[schedulingv1alpha1.GPU] {
		minors = append(minors, d.Minor)
	}
	return minors, nil
}
