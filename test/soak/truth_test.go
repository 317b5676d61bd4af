// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

func node(name, cluster string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterLabel: cluster}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}},
	}
}

func onNode(gang, name, cpu, node string) corev1.Pod {
	pod := podOf(gang, name, cpu)
	pod.Namespace, pod.UID, pod.Spec.NodeName = namespace, types.UID(name), node
	return *pod
}

func TestState(t *testing.T) {
	done := onNode("g1", "g1-9", "5", "n1")
	done.Status.Phase = corev1.PodSucceeded
	low := onNode("low", "low-0", "1", "n2")
	low.Spec.PriorityClassName = lowPriority
	s := &state{
		nodes: map[string]*corev1.Node{"n1": node("n1", "ib-0"), "n2": node("n2", "ib-1")},
		pods:  []corev1.Pod{onNode("g1", "g1-0", "3", "n1"), onNode("g1", "g1-1", "2500m", "n2"), onNode("g1", "g1-2", "1", ""), onNode("g10", "g10-0", "1", "n1"), low, done},
	}
	if diff := cmp.Diff(map[string]int64{"n1": 4000, "n2": 3500}, s.used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if got := s.free(); got != 4+4 {
		t.Errorf("free: got %d whole cpus, want 8", got)
	}
	if got := s.freeIn("ib-1"); got != 5 {
		t.Errorf("free in ib-1: got %d whole cpus, want 5", got)
	}
	bound, clusters := s.members(&gang{name: "g1"})
	if diff := cmp.Diff(map[string]bool{"ib-0": true, "ib-1": true}, clusters); diff != "" || bound != 3 {
		t.Errorf("members: got %d, want 3; clusters (-want +got):\n%s", bound, diff)
	}
}

func TestLeftovers(t *testing.T) {
	trace := func(pod, node string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod, Labels: map[string]string{control.PluginLabel: plugin}},
			Data:       map[string]string{control.PodKey: pod, control.UIDKey: pod, control.NodeKey: node},
		}
	}
	actual := newTruth(fake.NewClientset(trace("there", "n1"), trace("elsewhere", "n1"), trace("pending", "n1"), trace("ran", "n1"), trace("gone", "n1")))
	actual.neverBound["gone"] = true
	now := &state{pods: []corev1.Pod{onNode("g", "there", "1", "n1"), onNode("g", "elsewhere", "1", "n2"), onNode("g", "pending", "1", "")}}
	got, err := actual.leftovers(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`a trace of pod elsewhere for node n1, which is on "n2"`,
		`a trace of pod gone for node n1, which was deleted and never bound`,
		`a trace of pod pending for node n1, which is on ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
