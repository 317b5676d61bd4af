// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// picture draws Node A. Devices of the allocation are in brackets, and devices that other pods use are in parentheses.
func picture(s *State, a *Allocation) string {
	mark := func(t Type, minor int32) string {
		i, _ := s.index(t, minor)
		for _, d := range a[t] {
			if d.Minor == minor {
				return fmt.Sprintf("[%d]", minor)
			}
		}
		if s.isUsed(t, i) {
			return fmt.Sprintf("(%d)", minor)
		}
		return fmt.Sprintf(" %d ", minor)
	}
	var b strings.Builder
	for numa := range int32(2) {
		fmt.Fprintf(&b, "NUMA node %d\n", numa)
		for pcie := 2 * numa; pcie < 2*numa+2; pcie++ {
			line := fmt.Sprintf("%s PCIe %d   gpu %s %s   rdma %s", map[bool]string{true: "├─", false: "└─"}[pcie%2 == 0], pcie,
				mark(GPU, 2*pcie), mark(GPU, 2*pcie+1), mark(RDMA, pcie+1))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// TestDocumentedRequests checks that the page has each example with its requests, and that its picture shows the
// example's allocation.
func TestDocumentedRequests(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/plugins/deviceshare-requests.md")
	if err != nil {
		t.Fatal(err)
	}
	labelled := nodeA()
	for i := 4; i < 8; i++ {
		labelled.Spec.Devices[i].Labels = map[string]string{"pool": "train"}
	}
	h800 := nodeA()
	h800.Labels[v1alpha1.GPUModelLabel] = "H800"
	examples := map[string]struct {
		node       *deviceObject
		used       []*Allocation
		resources  v1.ResourceList
		annotation string
		value      string
		want       string
	}{
		"the narrowest part": {resources: list(nvidiaName, "3"), want: "gpu 0,1,2"},
		"the used part":      {used: []*Allocation{whole(5)}, resources: list(nvidiaName, "2"), want: "gpu 6,7"},
		"selector": {node: labelled, resources: list(nvidiaName, "2"), annotation: "device-allocate-hint",
			value: `{"gpu": {"selector": {"matchLabels": {"pool": "train"}}}}`, want: "gpu 4,5"},
		"vfSelector": {used: []*Allocation{nics(100, 1)}, resources: list(rdmaName, "1"), annotation: "device-allocate-hint",
			value: `{"rdma": {"vfSelector": {}}}`, want: "rdma 2/90:00.2"},
		"ApplyForAll": {resources: list(nvidiaName, "4", rdmaName, "1"), annotation: "device-allocate-hint",
			value: `{"rdma": {"allocateStrategy": "ApplyForAll"}}`, want: "gpu 0,1,2,3; rdma 1,2,3,4"},
		"RequestsAsCount": {resources: list(rdmaName, "2"), annotation: "device-allocate-hint",
			value: `{"rdma": {"allocateStrategy": "RequestsAsCount"}}`, want: "rdma 1,2"},
		"requiredTopologyScope": {used: []*Allocation{whole(1)}, resources: list(nvidiaName, "4"), annotation: "device-allocate-hint",
			value: `{"gpu": {"requiredTopologyScope": "NUMANode"}}`, want: "gpu 4,5,6,7"},
		"DeviceLevel": {used: []*Allocation{part(10, 0)}, resources: list(koordGPU, "50"), annotation: "device-allocate-hint",
			value: `{"gpu": {"exclusivePolicy": "DeviceLevel"}}`, want: "gpu 1@50"},
		"PCIeLevel": {used: []*Allocation{part(10, 0)}, resources: list(koordGPU, "50"), annotation: "device-allocate-hint",
			value: `{"gpu": {"exclusivePolicy": "PCIeLevel"}}`, want: "gpu 2@50"},
		"joint": {resources: list(nvidiaName, "3", rdmaName, "1"), annotation: "device-joint-allocate",
			value: `{"deviceTypes": ["gpu", "rdma"]}`, want: "gpu 0,1,2; rdma 1,2"},
		"SamePCIe": {used: []*Allocation{whole(0), nics(100, 1, 2)}, resources: list(nvidiaName, "3", rdmaName, "1"), annotation: "device-joint-allocate",
			value: `{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}`, want: "gpu 4,5,6; rdma 3,4"},
		"partition": {node: h800, used: []*Allocation{whole(4)}, resources: list(nvidiaName, "1"), annotation: "gpu-partition-spec",
			value: `{"allocatePolicy": "Restricted"}`, want: "gpu 5"},
	}
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			if e.node == nil {
				e.node = nodeA()
			}
			s := inUse(e.node.state(t), e.used...)
			var annotations []string
			if e.annotation != "" {
				annotations = []string{e.annotation, e.value}
				line := fmt.Sprintf("scheduling.koordinator.sh/%s: '%s'\n", e.annotation, e.value)
				if !strings.Contains(string(page), line) {
					t.Errorf("the page does not contain %s", line)
				}
			}
			a, refusal := Allocate(s, parse(t, makePod(e.resources, annotations...)), Options{})
			if refusal != nil {
				t.Fatal(refusal.Reason)
			}
			if got := text(a); got != e.want {
				t.Errorf("allocated %s, want %s", got, e.want)
			}
			if drawn := picture(s, a); !strings.Contains(string(page), drawn) {
				t.Errorf("the page does not contain\n%s", drawn)
			}
		})
	}
}
