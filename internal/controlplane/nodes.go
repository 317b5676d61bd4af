// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodeWriters is how many nodes are created in parallel.
const nodeWriters = 32

// CreateNodes creates simulated nodes. They are Ready and schedulable from the start.
func (cp *ControlPlane) CreateNodes(ctx context.Context, shape NodeShape) error {
	began := time.Now()
	shape = shape.withDefaults()
	nodes, err := shape.Nodes()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan *corev1.Node)
	errs := make([]error, nodeWriters)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for node := range work {
				if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
					errs[i] = fmt.Errorf("creating node %s: %w", node.Name, err)
					cancel()
					return
				}
			}
		})
	}
feed:
	for _, node := range nodes {
		select {
		case work <- node:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	cp.progress("%d nodes are ready (%.1fs)", len(nodes), time.Since(began).Seconds())
	return nil
}

func (s NodeShape) withDefaults() NodeShape {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&s.Prefix, "node-")
	set(&s.CPU, "32")
	set(&s.Memory, "256Gi")
	set(&s.RDMAResource, "rdma/hca")
	set(&s.IBClusterLabel, "ibcluster")
	if s.Pods == 0 {
		s.Pods = 110
	}
	if s.NodesPerLeaf == 0 {
		s.NodesPerLeaf = 16
	}
	if s.LeavesPerSpine == 0 {
		s.LeavesPerSpine = 4
	}
	return s
}

// Nodes returns the nodes of the shape. It returns an error for an invalid quantity.
func (s NodeShape) Nodes() ([]*corev1.Node, error) {
	s = s.withDefaults()
	resources, err := s.resources()
	if err != nil {
		return nil, err
	}
	now := metav1.Now()
	nodes := make([]*corev1.Node, s.Count)
	for i := range nodes {
		name := fmt.Sprintf("%s%04d", s.Prefix, s.First+i)
		annotations := map[string]string{nodeAnnotation: "fake"}
		maps.Copy(annotations, s.Annotations)
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels(name, i), Annotations: annotations},
			Status: corev1.NodeStatus{
				Capacity:    resources.DeepCopy(),
				Allocatable: resources.DeepCopy(),
				Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
				Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", Message: "node is simulated",
					LastHeartbeatTime: now, LastTransitionTime: now,
				}},
				NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "v1.34.1"},
			},
		}
	}
	return nodes, nil
}

// labels returns the labels of the i-th node of the shape.
func (s NodeShape) labels(name string, i int) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
		"type":                 "kwok",
	}
	if s.IBClusters > 0 {
		perCluster := (s.Count + s.IBClusters - 1) / s.IBClusters
		cluster := fmt.Sprintf("ib-%d", i/perCluster)
		leaf := i % perCluster / s.NodesPerLeaf
		labels[s.IBClusterLabel] = cluster
		labels["leaf"] = fmt.Sprintf("%s-leaf-%d", cluster, leaf)
		labels["spine"] = fmt.Sprintf("%s-spine-%d", cluster, leaf/s.LeavesPerSpine)
	}
	maps.Copy(labels, s.Labels)
	return labels
}

func (s NodeShape) resources() (corev1.ResourceList, error) {
	list := corev1.ResourceList{
		corev1.ResourcePods:             *resource.NewQuantity(int64(s.Pods), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q of a node: %w", name, text, err)
		}
		list[name] = quantity
	}
	if s.GPUs > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	if s.RDMA > 0 {
		list[corev1.ResourceName(s.RDMAResource)] = *resource.NewQuantity(int64(s.RDMA), resource.DecimalSI)
	}
	return list, nil
}
