// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestATaskWithoutDevicesLeavesTheCPUBesideGPUsToOthers checks that, with strategy Fragmentation, a task without
// devices is placed on the node without GPUs, because free GPUs are of no use without free CPU beside them.
func TestATaskWithoutDevicesLeavesTheCPUBesideGPUsToOthers(t *testing.T) {
	cases := map[string]struct {
		strategy string
		want     string
	}{
		"fragmentation":        {"Fragmentation", "plain"},
		"another, by its CPUs": {"LeastAllocated", "gpus"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("gpus", "plain")
			waiting, workers := gang("z", 4, schedtest.Resources{"cpu": "12", "koordinator.sh/gpu": "100"})
			lone, pods := gang("a", 1, schedtest.Resources{"cpu": "4"})
			w := newTestCluster(t, sessiontest.ClusterSpec{
				Nodes: nodes, Devices: devices[:1], PodGroups: []*v1beta1.PodGroup{waiting, lone},
				Pods: append(append(workers, pods...), schedtest.MakePod().Name("r").Node("plain").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "60"}).Obj()),
			})
			w.conf = strings.Replace(byDevices, "deviceshare\n", fmt.Sprintf("deviceshare\n    arguments:\n      scoringStrategy: {type: %s}\n", tc.strategy), 1)

			if got := w.allocate(t).decided["a-0"]; got != tc.want {
				t.Errorf("a pod without devices was placed on %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecentTasksCountAfterAReload checks that tasks that have ended still count as expected demand after a reload of the
// configuration: a task without devices leaves the CPU beside GPUs to such tasks.
func TestRecentTasksCountAfterAReload(t *testing.T) {
	nodes, devices := machines("gpus", "plain")
	ended, workers := gang("z", 4, schedtest.Resources{"cpu": "12", "koordinator.sh/gpu": "100"})
	lone, pods := gang("a", 1, schedtest.Resources{"cpu": "4"})
	running := schedtest.MakePod().Name("r").Node("plain").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "60"}).Obj()
	spec := sessiontest.ClusterSpec{Nodes: nodes, Devices: devices[:1], PodGroups: []*v1beta1.PodGroup{ended}, Pods: append(workers, running)}
	w := newTestCluster(t, spec)
	if got := w.allocate(t).decided; len(got) != 4 {
		t.Fatalf("%d pods with GPUs were placed, want 4", len(got))
	}
	spec.Devices, spec.PodGroups, spec.Pods = nil, []*v1beta1.PodGroup{lone}, []*v1.Pod{pods[0], running}
	w.Load(spec)
	w.scheduler, w.conf = nil, strings.Replace(byDevices, "deviceshare\n", "deviceshare\n    arguments:\n      scoringStrategy: {type: Fragmentation, weight: 99}\n", 1)
	if got := w.allocate(t).decided["a-0"]; got != "plain" {
		t.Errorf("a pod without devices was placed on %q, want plain", got)
	}
}

func TestTaskForAnyModelLeavesTheRareModelToOthers(t *testing.T) {
	nodes, devices := machines("n1", "n2", "n3", "n4")
	for i, model := range []string{"rare", "common", "common", "common"} {
		nodes[i].Labels[schedulingv1alpha1.GPUModelLabel] = model
	}
	var groups []*v1beta1.PodGroup
	var pods []*v1.Pod
	// Gang a is placed first.
	for name, model := range map[string]string{"a": "", "x": "rare", "y": "common", "z": "common"} {
		group, members := gang(name, 1, schedtest.Resources{"koordinator.sh/gpu": "800"}, func(pod *v1.Pod) {
			if model != "" {
				pod.Spec.NodeSelector = map[string]string{schedulingv1alpha1.GPUModelLabel: model}
			}
		})
		groups, pods = append(groups, group), append(pods, members...)
	}

	decided := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: groups, Pods: pods}).allocate(t).decided

	if len(decided) != 4 {
		t.Errorf("only these pods were placed, although all four fit: %v", decided)
	}
	if strings.HasPrefix(decided["a-0"], "n1") {
		t.Errorf("the pod that allows any model has the rare GPUs: %s", decided["a-0"])
	}
}
