// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheNextSessionSeesWhatChanged checks that a pending gang is placed in the next session after a change that makes
// room. Plugins cache results from session to session.
func TestTheNextSessionSeesWhatChanged(t *testing.T) {
	const isolation = schedulingv1alpha1.GPUIsolationProviderLabel
	share := schedtest.Resources{"koordinator.sh/gpu": "50"}
	isolated := func(pod *v1.Pod) { pod.Labels = map[string]string{isolation: "HAMi-core"} }
	replace := func(w *testCluster, was, is *v1.Pod) {
		w.Cache().DeletePod(was)
		w.AddPod(is)
	}
	onSwitch := annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, `{"gpu":{"requiredTopologyScope":"PCIe"}}`)
	scattered := runningWith("other", "n1", "100", 0, 2, 4, 6)
	unannotated := runningWith("other", "n1", "100", 0)
	unannotated.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	unannotated.Spec.Containers[0].Resources.Requests = unannotated.Spec.Containers[0].Resources.Limits
	delete(unannotated.Annotations, schedulingv1alpha1.DeviceAllocatedAnnotation)
	cpus := func(w *testCluster, free map[int]int) {
		w.Cache().Nodes["n1"].NumaInfo, w.Cache().Nodes["n1"].NumaChgFlag = numaInfo(free), api.NumaInfoMoreFlag
	}
	tests := map[string]struct {
		asks    schedtest.Resources
		gang    func(*v1.Pod)
		running []*v1.Pod
		before  func(*schedulingv1alpha1.Device)
		prepare func(w *testCluster)
		change  func(w *testCluster, node *v1.Node, device *schedulingv1alpha1.Device, pod *v1.Pod)
		want    string
	}{
		"a pod is gone": {
			asks: schedtest.Resources{"koordinator.sh/gpu": "800"}, running: []*v1.Pod{scattered},
			change: func(w *testCluster, _ *v1.Node, _ *schedulingv1alpha1.Device, _ *v1.Pod) {
				w.Cache().DeletePod(scattered)
			},
			want: "n1: gpu 0,1,2,3,4,5,6,7",
		},
		"a pod has others": {
			asks: schedtest.Resources{"koordinator.sh/gpu": "200"}, gang: onSwitch, running: []*v1.Pod{scattered},
			change: func(w *testCluster, _ *v1.Node, _ *schedulingv1alpha1.Device, _ *v1.Pod) {
				replace(w, scattered, runningWith("other", "n1", "100", 0, 1, 2, 3))
			},
			want: "n1: gpu 4,5",
		},
		"a pod says which it has": {
			asks: schedtest.Resources{"koordinator.sh/gpu": "100"}, running: []*v1.Pod{unannotated},
			change: func(w *testCluster, _ *v1.Node, _ *schedulingv1alpha1.Device, _ *v1.Pod) {
				withAnnotation := unannotated.DeepCopy()
				withAnnotation.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation] = runningWith("other", "n1", "100", 3).Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
				replace(w, unannotated, withAnnotation)
			},
			want: "n1: gpu 2",
		},
		"a NUMA node has CPUs": {
			asks: schedtest.Resources{"koordinator.sh/gpu": "100"}, gang: annotated(v1beta1.NumaPolicyKey, "single-numa-node"),
			prepare: func(w *testCluster) { cpus(w, map[int]int{0: 0, 1: 0}) },
			change: func(w *testCluster, _ *v1.Node, _ *schedulingv1alpha1.Device, _ *v1.Pod) {
				cpus(w, map[int]int{0: 0, 1: 8})
			},
			want: "n1: gpu 4",
		},
		"a device is healthy again": {
			asks:   schedtest.Resources{"koordinator.sh/gpu": "800"},
			before: func(d *schedulingv1alpha1.Device) { d.Spec.Devices[7].Health = false },
			change: func(w *testCluster, _ *v1.Node, device *schedulingv1alpha1.Device, _ *v1.Pod) {
				device.Spec.Devices[7].Health = true
				w.Devices().Put(device)
			},
			want: "n1: gpu 0,1,2,3,4,5,6,7",
		},
		"the node has a label": {
			asks: share, gang: isolated,
			change: func(w *testCluster, node *v1.Node, _ *schedulingv1alpha1.Device, _ *v1.Pod) {
				labelled := node.DeepCopy()
				labelled.Labels = map[string]string{isolation: "HAMi-core"}
				if err := w.Cache().AddOrUpdateNode(labelled); err != nil {
					panic(err)
				}
			},
			want: "n1: gpu 0",
		},
		"the Device object has a label": {
			asks: share, gang: isolated,
			change: func(w *testCluster, _ *v1.Node, device *schedulingv1alpha1.Device, _ *v1.Pod) {
				device.Labels = map[string]string{isolation: "HAMi-core"}
				w.Devices().Put(device)
			},
			want: "n1: gpu 0",
		},
		"the pod no longer has a hint": {
			asks: schedtest.Resources{"koordinator.sh/gpu": "100"},
			gang: func(pod *v1.Pod) {
				pod.ResourceVersion = "1"
				picky(pod, "fast")
			},
			change: func(w *testCluster, _ *v1.Node, _ *schedulingv1alpha1.Device, pod *v1.Pod) {
				plain := pod.DeepCopy()
				plain.ResourceVersion = "2"
				delete(plain.Annotations, schedulingv1alpha1.DeviceAllocateHintAnnotation)
				replace(w, pod, plain)
			},
			want: "n1: gpu 0",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			if tc.before != nil {
				tc.before(devices[0])
			}
			podGroup, pods := gang("g", 1, tc.asks)
			if tc.gang != nil {
				tc.gang(pods[0])
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running...)})
			if tc.prepare != nil {
				tc.prepare(w)
			}
			if got := w.allocate(t); len(got.decided) > 0 {
				t.Fatalf("placed before the change: %v, want none", got.decided)
			}
			tc.change(w, nodes[0], devices[0].DeepCopy(), pods[0])
			var got outcome
			// Informers deliver the change soon.
			_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				got = w.allocate(t)
				return len(got.decided) > 0, nil
			})
			if diff := cmp.Diff(map[string]string{"g-0": tc.want}, got.decided); diff != "" {
				t.Errorf("decided (-want +got):\n%s\nmessage: %s", diff, got.said["g-0"])
			}
		})
	}
}

// TestAPodThatAsksForWhatCannotBeIsRefusedForGood checks that the filter refuses a node for a pod with an invalid
// request, with a code that keeps actions from evicting pods. It does so even if PrePredicate was not called before.
func TestAPodThatAsksForWhatCannotBeIsRefusedForGood(t *testing.T) {
	nodes, devices := machines("n1")
	podGroup, pods := gang("g", 1, schedtest.Resources{"koordinator.sh/gpu": "150"})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
	w.conf = devicesAlone
	ssn := w.next(t)
	defer ssn.Close()
	err := ssn.PredicateFn(tasksOf(ssn)["g-0"], ssn.Nodes["n1"])
	var fit *api.FitError
	if !errors.As(err, &fit) || !fit.Status.ContainsUnschedulableAndUnresolvable() {
		t.Errorf("the filter returned %v, want an unresolvable refusal", err)
	}
}

// scores returns the plugin's scores for the task, by node.
func scores(t *testing.T, ssn *sessiontest.Session, task *api.TaskInfo) map[string]float64 {
	t.Helper()
	scores := map[string]float64{}
	for name, node := range ssn.Nodes {
		score, err := ssn.NodeOrderFn(task, node)
		if err != nil {
			t.Fatal(err)
		}
		scores[name] = score
	}
	return scores
}

// TestScoresOfNodes checks that a node without CPU for its other GPUs scores lower than a node with enough CPU. The
// scores depend on the tasks seen so far. Later sessions do not count a task again.
func TestScoresOfNodes(t *testing.T) {
	nodes, devices := machines("large", "small", "plain")
	nodes[1].Status.Allocatable["cpu"] = resource.MustParse("13")
	waiting, workers := gang("z", 8, schedtest.Resources{"cpu": "12", "koordinator.sh/gpu": "100"})
	lone, pods := gang("a", 1, schedtest.Resources{"cpu": "4"})
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices[:2], PodGroups: []*v1beta1.PodGroup{lone}, Pods: pods})
	w.conf = devicesAlone
	ssn := w.next(t)
	if got := scores(t, ssn, tasksOf(ssn)["a-0"]); got["large"] != 0 || got["plain"] != 0 {
		t.Errorf("before the first task with GPUs, a pod without devices has scores %v, want none", got)
	}
	ssn.Close()

	w.Load(sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{waiting, lone}, Pods: append(workers, pods...)})
	ssn = w.next(t)
	got := scores(t, ssn, tasksOf(ssn)["z-0"])
	ssn.Close()
	if got["large"]-got["small"] < 1000 || got["large"] > 100*100 {
		t.Errorf("the node without CPU for its other seven GPUs scores %.1f and the other node %.1f, want at least 1,000 more for the other", got["small"], got["large"])
	}
	for range 3 { // the same tasks are counted only once
		ssn = w.next(t)
		if diff := cmp.Diff(got, scores(t, ssn, tasksOf(ssn)["z-0"])); diff != "" {
			t.Errorf("in a later session (-before +after):\n%s", diff)
		}
		ssn.Close()
	}

	others, pods := gang("y", 50, schedtest.Resources{"koordinator.sh/gpu": "800"})
	w.Load(sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{waiting, others}, Pods: append(workers, pods...)})
	ssn = w.next(t)
	now := scores(t, ssn, tasksOf(ssn)["z-0"])
	ssn.Close()
	if now["large"] >= got["large"] {
		t.Errorf("after many tasks that need all GPUs of a node, an empty node scores %.1f, and before %.1f; want less", now["large"], got["large"])
	}
	w.Load(sessiontest.ClusterSpec{Nodes: nodes, PodGroups: []*v1beta1.PodGroup{waiting}, Pods: workers})
	for range 3 { // deleted tasks still count, and existing tasks are counted only once
		ssn = w.next(t)
		if diff := cmp.Diff(now, scores(t, ssn, tasksOf(ssn)["z-0"])); diff != "" {
			t.Errorf("in a later session (-before +after):\n%s", diff)
		}
		ssn.Close()
	}
}

// TestTheShareIsChosenByWhatTheNodeHasLeft: a pod requests half a GPU. If the node has CPU for another such pod, the
// pod gets an unused GPU, which keeps a half for the other pod. Otherwise it gets the GPU that is already in use.
func TestTheShareIsChosenByWhatTheNodeHasLeft(t *testing.T) {
	for cpu, want := range map[string]string{"10": "gpu 1", "5": "gpu 0"} {
		t.Run(fmt.Sprint(cpu, " CPUs"), func(t *testing.T) {
			nodes, devices := machines("n1")
			nodes[0].Status.Allocatable["cpu"] = resource.MustParse(cpu)
			podGroup, pods := gang("g", 1, schedtest.Resources{"cpu": "4", "koordinator.sh/gpu": "50"})
			used := runningWith("other", "n1", "20", 0)
			used.Spec.Containers[0].Resources.Requests["cpu"] = resource.Quantity{}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, used)})
			if diff := cmp.Diff(map[string]string{"g-0": "n1: " + want}, w.allocate(t).decided); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
