// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// createNodes creates the nodes of upstream's CI, with their names and sizes. Each node has the network pod of a kind
// cluster, because several specs depend on the resources that this pod uses.
func (w *testCluster) createNodes(ctx context.Context) error {
	nodes := []*corev1.Node{node("integration-control-plane", "4", "16Gi", "node-role.kubernetes.io/control-plane", "")}
	for _, suffix := range []string{"", "2", "3", "4"} {
		nodes = append(nodes, node("integration-worker"+suffix, "4", "16Gi", "", ""))
	}
	if w.suite.fabric {
		for i := range 8 {
			nodes = append(nodes, node(fmt.Sprintf("kwok-node-%d", i), "8", "8Gi", "kwok.x-k8s.io/node", "fake"))
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := w.kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the service account of %s: %w", metav1.NamespaceSystem, err)
	}
	for _, n := range nodes {
		if _, err := w.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, networkPod(n.Name), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil
		}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of the network: %w", err)
	}
	return nil
}

func node(name, cpu, memory, taint, value string) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	now := metav1.Now()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", Message: "node is simulated",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
	if taint != "" {
		n.Spec.Taints = []corev1.Taint{{Key: taint, Value: value, Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

func networkPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "network-" + node, Namespace: metav1.NamespaceSystem},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "network", Image: "network", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("50Mi")},
			}}},
		},
	}
}
