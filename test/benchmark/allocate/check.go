// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// podNamespace is the namespace of the pods.
const podNamespace = schedulertesting.Namespace

// check returns an error for a wrong placement: a node above its capacity or with a taint, a partially placed gang, a
// gang that requires one cluster and is in several, or members on one node that exclude each other.
func check(w sessiontest.ClusterSpec, sh shape, placement map[string]string) error {
	nodes := map[string]*v1.Node{}
	for _, node := range w.Nodes {
		nodes[node.Name] = node
	}
	used := map[string]v1.ResourceList{}
	members, clusters := map[string]int{}, map[string]string{}
	alone := map[[2]string]string{}
	pods := map[string]string{}
	for _, pod := range w.Pods {
		name := pod.Spec.NodeName
		if pod.Status.Phase == v1.PodPending {
			name = placement[podNamespace+"/"+pod.Name]
		}
		if name == "" {
			continue
		}
		if used[name] == nil {
			used[name] = v1.ResourceList{}
		}
		addAll(used[name], pod.Spec.Containers[0].Resources.Requests)
		if pod.Status.Phase != v1.PodPending {
			continue
		}
		node := nodes[name]
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("pod %s was placed on node %s, which is tainted", pod.Name, name)
		}
		gang := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]
		cluster := node.Labels[insession.ClusterLabel]
		if first, ok := clusters[gang]; ok && first != cluster && sh.clusters > 0 {
			return fmt.Errorf("gang %s was placed in clusters %s and %s", gang, first, cluster)
		}
		if other, ok := alone[[2]string{gang, name}]; ok && sh.apart {
			return fmt.Errorf("pods %s and %s were both placed on node %s", other, pod.Name, name)
		}
		alone[[2]string{gang, name}] = pod.Name
		if other, ok := pods[name]; ok && sh.storage.local {
			return fmt.Errorf("pods %s and %s were both placed on node %s, which has one volume", other, pod.Name, name)
		}
		pods[name] = pod.Name
		members[gang]++
		clusters[gang] = cluster
	}
	for gang, n := range members {
		if n != sh.gangSize {
			return fmt.Errorf("%d of the %d pods of gang %s were placed", n, sh.gangSize, gang)
		}
	}
	return checkRoom(nodes, used)
}

// checkRoom returns an error for a node above its capacity.
func checkRoom(nodes map[string]*v1.Node, used map[string]v1.ResourceList) error {
	for name, list := range used {
		for kind, quantity := range list {
			if has := nodes[name].Status.Allocatable[kind]; quantity.Cmp(has) > 0 {
				return fmt.Errorf("node %s was given %s of %s and has %s", name, quantity.String(), kind, has.String())
			}
		}
	}
	return nil
}

// addAll adds requests and one pod to the sum.
func addAll(sum, requests v1.ResourceList) {
	add := func(kind v1.ResourceName, more resource.Quantity) {
		total := sum[kind]
		total.Add(more)
		sum[kind] = total
	}
	for kind, quantity := range requests {
		add(kind, quantity)
	}
	add(v1.ResourcePods, *resource.NewQuantity(1, resource.DecimalSI))
}
