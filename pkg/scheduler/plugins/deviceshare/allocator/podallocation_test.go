// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestAllocationByRatioUsesAllMemory: an allocation by ratio may not list the GPU's memory. With the whole ratio it
// uses all of the memory.
func TestAllocationByRatioUsesAllMemory(t *testing.T) {
	d := makeDevice()
	d.gpu(0, 0, "a")
	has := &Allocation{GPU: {{Minor: 0, Amounts: Amounts{Core: 100, MemoryRatio: 100}}}}
	s := d.state(t).With(has)
	check(t, s, parse(t, makePod(list(memoryName, "1Mi"))), Options{}, "Insufficient gpu devices", true)
	check(t, s.Without(has), parse(t, makePod(list(memoryName, "1Mi"))), Options{}, "gpu 0@0", false)
}

func TestAnnotationCountsUpToTheRequest(t *testing.T) {
	gpus, half, nic := whole(0, 1, 2, 3).Annotation(), part(50, 2, 3).Annotation(), nics(100, 1, 2).Annotation()
	both := &Allocation{GPU: whole(0, 2)[GPU], RDMA: nics(50, 1, 2)[RDMA]}
	all := "gpu 0,1,2,3"
	tests := map[string]struct {
		resources  v1.ResourceList
		annotation string
		want       string
		more       bool
	}{
		"as much as it asks for":            {list(nvidiaName, "4"), gpus, all, false},
		"by hundredths":                     {list(koordGPU, "400"), gpus, all, false},
		"more GPUs":                         {list(nvidiaName, "1"), gpus, "gpu 0", true},
		"more of each GPU":                  {list(sharedName, "4", coreName, "40", ratioName, "40"), gpus, "gpu 0@10,1@10,2@10,3@10", true},
		"shares":                            {list(sharedName, "2", ratioName, "100", coreName, "100"), half, "gpu 2@50,3@50", false},
		"shares by memory":                  {list(sharedName, "2", memoryName, "85198045184", coreName, "100"), half, "gpu 2@50,3@50", false},
		"other devices":                     {list(rdmaName, "1"), gpus, "", true},
		"NICs by hints that are gone":       {list(rdmaName, "1"), nic, "rdma 1@100,2@100", false},
		"GPUs of which NICs decide":         {list(koordGPU, "100", rdmaName, "100"), both.Annotation(), "gpu 0,2; rdma 1@50,2@50", false},
		"a device of which nothing is said": {list(koordGPU, "200"), `{"gpu":[{"minor":3},{"minor":5}]}`, "gpu 3,5", false},
		"a share of which nothing is said":  {list(koordGPU, "50"), `{"gpu":[{"minor":3}]}`, "gpu 3@50", false},
		"a NIC of which nothing is said":    {list(rdmaName, "100"), `{"rdma":[{"minor":1}]}`, "rdma 1@100", false},
		"more functions of a NIC than any has": {list(rdmaName, "1"), `{"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"1"},"extension":{"vfs":[` +
			strings.Join(manyOf(`{"busID":"%d"}`, 5000), ",") + `]}}]}`, "rdma 1/" + strings.Join(manyOf("%d", 64), "/"), true},
		"asks for nothing":                 {list("cpu", "1"), gpus, "", false},
		"asks for zero":                    {list(sharedName, "0"), gpus, "", false},
		"asks for what cannot go together": {list(koordGPU, "100", nvidiaName, "1"), gpus, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := AllocationOf(makePod(tt.resources, "device-allocated", tt.annotation))
			if a == nil {
				a = &Allocation{}
			}
			if diff := cmp.Diff(tt.want, text(a)); diff != "" || (err != nil) != tt.more {
				t.Errorf("error %v, has (-want +got):\n%s", err, diff)
			}
		})
	}
}
