// SPDX-License-Identifier: Apache-2.0

package random

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// describe shows an instance and the state of its pods in each outcome: bound, held or pipelined.
func describe(in instance, outcomes map[string]outcome) string {
	var b strings.Builder
	b.WriteString(in.conf)
	for _, node := range in.world.Nodes {
		fmt.Fprintf(&b, "\nnode %s: %s labels %v %s", node.Name, listed(node.Status.Allocatable), node.Labels, asJSON(node.Spec))
	}
	for _, hyperNode := range in.world.HyperNodes {
		fmt.Fprintf(&b, "\nhypernode %s of tier %d:", hyperNode.Name, hyperNode.Spec.Tier)
		for _, member := range hyperNode.Spec.Members {
			fmt.Fprintf(&b, " %s", member.Selector.ExactMatch.Name)
		}
	}
	for _, queue := range in.world.Queues {
		fmt.Fprintf(&b, "\nqueue %s: %s", queue.Name, asJSON(queue.Spec))
	}
	for _, group := range in.world.PodGroups {
		fmt.Fprintf(&b, "\ngang %s: %s %v", group.Name, asJSON(group.Spec), group.Annotations)
	}
	for _, pod := range in.world.Pods {
		fmt.Fprintf(&b, "\npod %s:", pod.Name)
		if runs(pod) {
			fmt.Fprintf(&b, " runs on %s, terminating %t;", pod.Spec.NodeName, pod.DeletionTimestamp != nil)
		}
		fmt.Fprintf(&b, " %s labels %v annotations %v %s", listed(pod.Spec.Containers[0].Resources.Requests), pod.Labels, pod.Annotations, constraintsOf(pod))
		for _, name := range sortedKeys(outcomes) {
			out, key := outcomes[name], pod.Namespace+"/"+pod.Name
			for how, where := range map[string]string{"bound": out.bound[key], "held": out.held[key], "pipelined": out.pipelined[key]} {
				if where != "" {
					fmt.Fprintf(&b, " [%s: %s %s]", name, how, where)
				}
			}
		}
	}
	for _, name := range sortedKeys(outcomes) {
		for _, fault := range faults(in, outcomes[name]) {
			fmt.Fprintf(&b, "\n%s breaks %s", name, fault)
		}
	}
	return b.String()
}

func listed(list v1.ResourceList) string {
	var out []string
	for _, name := range sortedKeys(list) {
		amount := list[name]
		out = append(out, fmt.Sprintf("%s %s", name, amount.String()))
	}
	return strings.Join(out, ", ")
}

// constraintsOf describes the constraints on the pod's node.
func constraintsOf(pod *v1.Pod) string {
	var out []string
	if pod.Status.NominatedNodeName != "" {
		out = append(out, "nominated to "+pod.Status.NominatedNodeName)
	}
	spec := v1.PodSpec{
		NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations, Priority: pod.Spec.Priority,
		TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints, SchedulingGates: pod.Spec.SchedulingGates, Volumes: pod.Spec.Volumes,
	}
	if ports := pod.Spec.Containers[0].Ports; len(ports) > 0 {
		spec.Containers = []v1.Container{{Ports: ports}}
	}
	return strings.Join(append(out, asJSON(spec)), " ")
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
