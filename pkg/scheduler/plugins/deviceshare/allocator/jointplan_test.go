// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oddRoots is a node with six PCIe roots: three with one GPU and three with two.
func oddRoots() *deviceObject {
	d := makeDevice()
	for minor, root := range []int{0, 1, 2, 3, 3, 4, 4, 5, 5} {
		d.gpu(int32(minor), 0, fmt.Sprint("pcie", root))
	}
	return d
}

func TestMembersTogether(t *testing.T) {
	gpus := func(n string) *Request { return parse(t, makePod(list(nvidiaName, n))) }
	joint := func(n string) *Request {
		return parse(t, makePod(list(nvidiaName, n, rdmaName, "1"), "device-joint-allocate", jointPCIe))
	}
	inNUMA := parse(t, makePod(list(nvidiaName, "4"), "device-allocate-hint", `{"gpu":{"requiredTopologyScope":"NUMANode"}}`))
	rootsAlone := parse(t, makePod(list(nvidiaName, "3"), "device-allocate-hint", `{"gpu":{"exclusivePolicy":"PCIeLevel"}}`))
	tests := map[string]struct {
		node     func() *deviceObject
		used     []*Allocation
		requests []*Request
		want     string
		refused  bool
	}{
		"ranks are on neighbours": {
			requests: []*Request{gpus("1"), gpus("1"), gpus("2"), gpus("1"), gpus("1")},
			want:     "gpu 0 | gpu 1 | gpu 2,3 | gpu 4 | gpu 5",
		},
		"a member with a NIC is left the GPU beside the only one": {
			used:     []*Allocation{nics(100, 1, 2, 3)},
			requests: []*Request{gpus("6"), joint("2")},
			want:     "gpu 0,1,2,3,4,5 | gpu 6,7; rdma 4",
		},
		"the NIC is on the first root": {
			used:     []*Allocation{nics(100, 2, 3, 4)},
			requests: []*Request{gpus("2"), gpus("2"), joint("2")},
			want:     "gpu 2,3 | gpu 4,5 | gpu 0,1; rdma 1",
		},
		"a NUMA node is left whole": {
			requests: []*Request{gpus("1"), gpus("3"), inNUMA},
			want:     "gpu 0 | gpu 1,2,3 | gpu 4,5,6,7",
		},
		"equal members have equal scopes": {
			used:     []*Allocation{whole(3), whole(5), whole(7)},
			requests: []*Request{gpus("2"), gpus("2")},
			want:     "gpu 0,2 | gpu 4,6",
		},
		"equal members have equal scopes, the narrowest": {
			used:     []*Allocation{whole(0, 4)},
			requests: []*Request{gpus("2"), gpus("2")},
			want:     "gpu 2,3 | gpu 6,7",
		},
		"not all can have the narrowest": {
			used:     []*Allocation{whole(0, 2, 4, 7)},
			requests: []*Request{gpus("2"), gpus("2")},
			want:     "gpu 1,3 | gpu 5,6",
		},
		"no equal scopes, and no wider one than must be": {
			used:     []*Allocation{whole(2, 3, 4)},
			requests: []*Request{gpus("2"), gpus("2")},
			want:     "gpu 0,1 | gpu 6,7",
		},
		"members in the way of one in the middle": {
			requests: []*Request{gpus("1"), inNUMA, gpus("1"), gpus("2")},
			want:     "gpu 0 | gpu 4,5,6,7 | gpu 1 | gpu 2,3",
		},
		"PCIe roots of one, which three each would like best, go with those of two": {
			node: oddRoots, requests: []*Request{rootsAlone, rootsAlone, rootsAlone}, want: "gpu 0,7,8 | gpu 1,5,6 | gpu 2,3,4",
		},
		"too many together": {
			requests: []*Request{gpus("5"), gpus("4")},
			want:     "Insufficient gpu devices for 2 members together", refused: true,
		},
		"too many alone": {
			requests: []*Request{gpus("5"), gpus("9")},
			want:     "Insufficient gpu devices: 9 requested", refused: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			node := tt.node
			if node == nil {
				node = nodeA
			}
			got, refusal := AllocateTogether(inUse(node().state(t), tt.used...), tt.requests, Options{})
			if refusal != nil {
				if !tt.refused || !strings.Contains(refusal.Reason, tt.want) {
					t.Fatalf("refused: %q, want %q", refusal.Reason, tt.want)
				}
				return
			}
			var texts []string
			for _, a := range got {
				texts = append(texts, text(a))
			}
			if diff := cmp.Diff(tt.want, strings.Join(texts, " | ")); diff != "" {
				t.Errorf("allocations (-want +got):\n%s", diff)
			}
		})
	}
}
