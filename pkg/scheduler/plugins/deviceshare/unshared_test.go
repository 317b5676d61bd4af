// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestModelsThatAreNotShared checks that GPUs of the models in gpuShareUnsupportedModels are given only as whole GPUs,
// whatever the form of the request is.
func TestModelsThatAreNotShared(t *testing.T) {
	const excluded = `0/1 members fit: 1 node with GPUs of model "A", which argument gpuShareUnsupportedModels excludes from sharing` +
		`0/1 nodes are unavailable: 1 node(s) with GPUs of model "A", which argument gpuShareUnsupportedModels excludes from sharing.`
	tests := map[string]struct {
		resources schedtest.Resources
		model     string
		refused   bool
	}{
		"a whole GPU":            {schedtest.Resources{"koordinator.sh/gpu": "100"}, "A", false},
		"all of a GPU's memory":  {schedtest.Resources{"koordinator.sh/gpu-memory": "80Gi"}, "A", false},
		"a share":                {schedtest.Resources{"koordinator.sh/gpu": "50"}, "A", true},
		"a share by memory":      {schedtest.Resources{"koordinator.sh/gpu-memory": "40Gi"}, "A", true},
		"shares of several":      {schedtest.Resources{"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "100"}, "A", true},
		"a share of another":     {schedtest.Resources{"koordinator.sh/gpu": "50"}, "B", false},
		"a NIC beside the model": {schedtest.Resources{"koordinator.sh/rdma": "1"}, "A", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			nodes[0].Labels[schedulingv1alpha1.GPUVendorLabel], nodes[0].Labels[schedulingv1alpha1.GPUModelLabel] = "v", tc.model
			podGroup, pods := gang("g", 1, tc.resources)
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			w.conf += "    arguments: {gpuShareUnsupportedModels: [{vendor: v, model: A}]}\n"
			got := w.allocate(t)
			if refused := len(got.decided) == 0; refused != tc.refused || refused && got.said["g-0"] != excluded {
				t.Errorf("placed %v, message %v", got.decided, got.said)
			}
		})
	}
}
