// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestWhatAVendorCannotServeIsRefusedByTheNode: it would fail each time just before the bind, on one node after the other.
func TestWhatAVendorCannotServeIsRefusedByTheNode(t *testing.T) {
	const needs = "wants koordinator.sh/gpu-core and at least"
	tests := map[string]struct {
		vendor string
		asks   schedtest.Resources
		said   string
	}{
		"Cambricon, one":                    {"cambricon", schedtest.Resources{"koordinator.sh/gpu": "50"}, ""},
		"Cambricon, two":                    {"cambricon", schedtest.Resources{"koordinator.sh/gpu": "200"}, "gives a pod 1 at most: 2 asked for"},
		"Cambricon, memory alone":           {"cambricon", schedtest.Resources{"koordinator.sh/gpu-memory-ratio": "50"}, needs},
		"Cambricon, too little memory":      {"cambricon", schedtest.Resources{"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "255Mi"}, needs},
		"Cambricon, just enough memory":     {"cambricon", schedtest.Resources{"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "256Mi"}, ""},
		"MetaX, several":                    {"metax", schedtest.Resources{"koordinator.sh/gpu": "200"}, ""},
		"MetaX, memory alone":               {"metax", schedtest.Resources{"koordinator.sh/gpu-memory": "1Gi"}, needs},
		"NICs alone":                        {"cambricon", schedtest.Resources{"koordinator.sh/rdma": "200"}, ""},
		"another vendor, memory alone, two": {"huawei", schedtest.Resources{"koordinator.sh/gpu-memory-ratio": "200"}, ""},
	}
	for name, tc := range tests {
		for _, adapted := range []bool{true, false} {
			nodes, devices := machines("n1")
			devices[0].Labels = map[string]string{schedulingv1alpha1.GPUVendorLabel: tc.vendor}
			podGroup, pods := gang("g", 1, tc.asks)
			w := newWorld(t, sessiontest.World{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			if adapted {
				w.conf += "    arguments: {devicePluginAdaption: true}\n"
			}
			out := w.allocate(t)
			if placed := len(out.decided) == 1; placed != (tc.said == "" || !adapted) {
				t.Errorf("%s, adapted %t: placed %t, said %q", name, adapted, placed, out.said["g-0"])
			}
			if adapted && !strings.Contains(out.said["g-0"], tc.said) {
				t.Errorf("%s: said %q, want %q", name, out.said["g-0"], tc.said)
			}
		}
	}
}
