// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// truth has the state according to the API server.
type truth struct {
	kube kubernetes.Interface

	mu sync.Mutex
	// neverBound are deleted pods that were on no node at their deletion.
	neverBound map[types.UID]bool
}

func newTruth(kube kubernetes.Interface) *truth {
	return &truth{kube: kube, neverBound: map[types.UID]bool{}}
}

// start follows the gangs' pods to record whether deleted ones had a node.
func (t *truth) start(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(t.kube, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		// The last state of a pod that was deleted during a gap of the watch is unknown.
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.neverBound[pod.UID] = true
		}
	}})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// state is the API server's own list of pods and nodes.
type state struct {
	pods  []corev1.Pod
	nodes map[string]*corev1.Node
}

func (t *truth) read(ctx context.Context) (*state, error) {
	nodes, err := t.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := t.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	s := &state{pods: pods.Items, nodes: map[string]*corev1.Node{}}
	for i := range nodes.Items {
		s.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return s, nil
}

// used returns the CPU requests of the pods on each node, in milli-CPU.
func (s *state) used() map[string]int64 {
	used := map[string]int64{}
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, c := range pod.Spec.Containers {
			used[pod.Spec.NodeName] += c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return used
}

// on describes the pods on the node: when they were bound, and whether they are being deleted.
func (s *state) on(node string) string {
	var pods []string
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Spec.NodeName != node {
			continue
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%s/%s %s", pod.Namespace, pod.Name, pod.Status.Phase)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				fmt.Fprintf(&text, " %s=%s since %s", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly))
			}
		}
		if pod.DeletionTimestamp != nil {
			text.WriteString(" to be gone at " + pod.DeletionTimestamp.UTC().Format(time.TimeOnly))
		}
		pods = append(pods, text.String())
	}
	slices.Sort(pods)
	return strings.Join(pods, ", ")
}

// free returns the number of whole CPUs that are free on all nodes together.
func (s *state) free() (cpus int) {
	used := s.used()
	for name, node := range s.nodes {
		cpus += int((node.Status.Allocatable.Cpu().MilliValue() - used[name]) / 1000)
	}
	return cpus
}

// members returns the number of the gang's pods on nodes, and their clusters.
func (s *state) members(g *gang) (bound int, clusters map[string]bool) {
	clusters = map[string]bool{}
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Namespace == namespace && strings.HasPrefix(pod.Name, g.name+"-") && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			bound++
			if node := s.nodes[pod.Spec.NodeName]; node != nil {
				clusters[node.Labels[clusterLabel]] = true
			}
		}
	}
	return bound, clusters
}

// freeIn returns the number of whole CPUs in the InfiniBand cluster that are free or used by pods of low priority.
func (s *state) freeIn(cluster string) (cpus int) {
	others := &state{pods: slices.DeleteFunc(slices.Clone(s.pods), func(pod corev1.Pod) bool { return pod.Spec.PriorityClassName == lowPriority })}
	used := others.used()
	for name, node := range s.nodes {
		if node.Labels[clusterLabel] == cluster {
			cpus += int((node.Status.Allocatable.Cpu().MilliValue() - used[name]) / 1000)
		}
	}
	return cpus
}

// watchCapacity continuously checks that no node holds more than its capacity. It reports each node once.
func (s *soak) watchCapacity(ctx context.Context) {
	told := map[string]bool{}
	for pause(ctx, 500*time.Millisecond) {
		now, err := s.truth.read(ctx)
		if err != nil {
			continue
		}
		for name, used := range now.used() {
			node := now.nodes[name]
			if node == nil || told[name] || used <= node.Status.Allocatable.Cpu().MilliValue() {
				continue
			}
			told[name] = true
			s.violate("node %s is over capacity: its pods ask for %dm cpu of %s: %s", name, used, node.Status.Allocatable.Cpu(), now.on(name))
		}
	}
}

// leftovers returns the traces of pre-bind steps for pods that are not on the node of the trace.
func (t *truth) leftovers(ctx context.Context, now *state) ([]string, error) {
	traces, err := t.kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: control.PluginLabel + "=" + plugin})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*corev1.Pod{}
	for i := range now.pods {
		pods[now.pods[i].UID] = &now.pods[i]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var left []string
	for i := range traces.Items {
		trace := traces.Items[i].Data
		uid := types.UID(trace[control.UIDKey])
		pod, there := pods[uid]
		switch {
		case there && pod.Spec.NodeName != trace[control.NodeKey]:
			left = append(left, fmt.Sprintf("a trace of pod %s for node %s, which is on %q", trace[control.PodKey], trace[control.NodeKey], pod.Spec.NodeName))
		case !there && t.neverBound[uid]:
			left = append(left, fmt.Sprintf("a trace of pod %s for node %s, which was deleted and never bound", trace[control.PodKey], trace[control.NodeKey]))
		}
	}
	return left, nil
}

// untrue returns bound pods whose staged annotation does not match their node, although the annotation is part of the
// Binding.
func (s *state) untrue() (pods []string) {
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Namespace == namespace && pod.Spec.NodeName != "" && pod.Annotations[control.StagedPrefix+plugin] != pod.Spec.NodeName {
			pods = append(pods, fmt.Sprintf("%s is on %s and was staged for %q", pod.Name, pod.Spec.NodeName, pod.Annotations[control.StagedPrefix+plugin]))
		}
	}
	return pods
}

func (s *state) names() []string { return slices.Sorted(maps.Keys(s.nodes)) }
