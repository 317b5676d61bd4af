// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

func TestPodsOfDaemonSets(t *testing.T) {
	for kind, want := range map[string]bool{"DaemonSet": true, "Node": true, "ReplicaSet": false, "": false} {
		pod := &v1.Pod{}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		}
		if got := OfDaemonSet(&api.TaskInfo{Pod: pod}); got != want {
			t.Errorf("owner %q: %t, want %t", kind, got, want)
		}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet"}}}}
	if OfDaemonSet(&api.TaskInfo{Pod: pod}) {
		t.Error("an owner that is no controller counts")
	}
}

func TestStartedPodsComeFirst(t *testing.T) {
	task := func(name string, started bool) *api.TaskInfo {
		pod := &v1.Pod{}
		if started {
			pod.Status.StartTime = &metav1.Time{}
		}
		return &api.TaskInfo{Name: name, Pod: pod}
	}
	tasks := []*api.TaskInfo{task("a", false), task("b", true), task("c", false), task("d", true)}
	slices.SortStableFunc(tasks, CompareStarted)
	var got string
	for _, task := range tasks {
		got += task.Name
	}
	if got != "bdac" {
		t.Errorf("the order is %s, want bdac", got)
	}
}
