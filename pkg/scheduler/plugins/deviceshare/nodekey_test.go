// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestANodeHasAnotherKeyOnceVerdictsMayDiffer checks that the key of a node changes whenever filter results on the node
// may change. Otherwise allocate would reuse the results of the former session.
func TestANodeHasAnotherKeyOnceVerdictsMayDiffer(t *testing.T) {
	writes := 0
	tests := map[string]struct {
		arguments string
		change    func(t *testing.T, w *testCluster, device *schedulingv1alpha1.Device)
		same      bool
	}{
		"nothing changes":                   {same: true, change: func(*testing.T, *testCluster, *schedulingv1alpha1.Device) {}},
		"nothing changes, by fragmentation": {same: true, arguments: "scoringStrategy: {type: Fragmentation}", change: func(*testing.T, *testCluster, *schedulingv1alpha1.Device) {}},
		"a NUMA node has another CPU": {change: func(_ *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			node := w.Cache().Nodes["n1"]
			node.NumaInfo, node.NumaChgFlag = numaInfo(map[int]int{0: 4, 1: 5}), api.NumaInfoMoreFlag
		}},
		"a CPU of another NUMA node": {change: func(_ *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			node := w.Cache().Nodes["n1"]
			node.NumaInfo, node.NumaChgFlag = numaInfo(map[int]int{0: 5, 1: 3}), api.NumaInfoMoreFlag
		}},
		"the node's CPUs are no longer aligned": {change: func(_ *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			node := w.Cache().Nodes["n1"]
			node.NumaInfo, node.NumaChgFlag = numaInfo(map[int]int{0: 4, 1: 4}), api.NumaInfoMoreFlag
			node.NumaInfo.Policies["TopologyManagerPolicy"] = "none"
		}},
		"a device is ill": {change: func(_ *testing.T, w *testCluster, device *schedulingv1alpha1.Device) {
			device.Spec.Devices[3].Health = false
			w.Devices().Put(device)
		}},
		"templates change": {change: func(t *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			writes++
			config := &v1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "koordinator-system", Name: "gpu-shared-resource-templates"},
				Data:       map[string]string{"data.yaml": fmt.Sprintf("huawei-Ascend-310P: {vir01: {huawei.com/npu-core: %d}}", writes)},
			}
			maps := w.Kube().CoreV1().ConfigMaps(config.Namespace)
			if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
				if _, err = maps.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"tasks of another class come, by fragmentation": {arguments: "scoringStrategy: {type: Fragmentation}", change: func(_ *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			_, pods := gang("g", 2, schedtest.Resources{"cpu": "3", "koordinator.sh/gpu": "25"})
			w.AddPod(pods[1])
		}},
		"tasks of another class come, by another strategy": {same: true, arguments: "scoringStrategy: {type: LeastAllocated}", change: func(_ *testing.T, w *testCluster, _ *schedulingv1alpha1.Device) {
			_, pods := gang("g", 2, schedtest.Resources{"cpu": "3", "koordinator.sh/gpu": "25"})
			w.AddPod(pods[1])
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("g", 1, schedtest.Resources{"cpu": "12", "koordinator.sh/gpu": "100"})
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			if tc.arguments != "" {
				w.conf = strings.Replace(byDevices, "deviceshare\n", "deviceshare\n    arguments:\n      "+tc.arguments+"\n", 1)
			}
			w.Cache().Nodes["n1"].NumaInfo, w.Cache().Nodes["n1"].NumaChgFlag = numaInfo(map[int]int{0: 4, 1: 4}), api.NumaInfoMoreFlag
			key := func() uint64 {
				ssn := w.next(t)
				defer ssn.Close()
				key, ok := ssn.Signers.NodeKey(deviceshare.Name, ssn.Nodes["n1"])
				if !ok {
					t.Fatal("the node has no key")
				}
				return key
			}
			before := key()
			differs := func(context.Context) (bool, error) {
				tc.change(t, w, devices[0].DeepCopy())
				return key() != before, nil
			}
			if tc.same {
				if other, _ := differs(t.Context()); other {
					t.Error("the key has changed")
				}
				return
			}
			// Informers deliver the change soon.
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, differs); err != nil {
				t.Error("the key has not changed")
			}
		})
	}
}
