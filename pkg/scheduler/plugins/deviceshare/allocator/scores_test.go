// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// curious is a strategy that records the devices that it scores.
type curious struct {
	LeastAllocated
	devices *[]string
}

func (a curious) DeviceScore(s *State, t Type, index int, amounts Amounts) float64 {
	*a.devices = append(*a.devices, fmt.Sprintf("%s %d", t, s.Devices[t][index].Minor))
	return a.LeastAllocated.DeviceScore(s, t, index, amounts)
}

// TestStrategyIsCalledOnlyForChoices: the strategy is the largest part of the cost of a search on thousands of nodes,
// so it scores a device only if there is a choice.
func TestStrategyIsCalledOnlyForChoices(t *testing.T) {
	empty := nodeA().state(t)
	joint := func(gpus, rdma string) *Request {
		return parse(t, makePod(list(nvidiaName, gpus, rdmaName, rdma), "device-joint-allocate", jointPCIe, "device-allocate-hint", vfHint))
	}
	tests := map[string]struct {
		state   *State
		request *Request
		want    []string
	}{
		"all GPUs, and a NIC on each of their roots":              {empty, joint("8", "1"), nil},
		"all GPUs with NICs in use":                               {empty.With(nics(10, 1, 2)).With(nics(20, 3)), joint("8", "1"), nil},
		"some of the GPUs, which are equal, and some of the NICs": {empty, joint("2", "1"), []string{"gpu 0", "rdma 1"}},
		"a share of GPUs of which two are in use":                 {empty.With(part(50, 3, 5)), parse(t, makePod(list(koordGPU, "50"))), []string{"gpu 0", "gpu 3"}},
		"GPUs that are not free, and would be on an empty node":   {empty.With(whole(3)), joint("8", "1"), nil},
		"any GPU of one that is free on each root":                {empty.With(whole(0, 2, 4, 6)), joint("1", "1"), []string{"gpu 1", "rdma 1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var devices []string
			_, _ = Allocate(tt.state, tt.request, Options{Strategy: curious{LeastAllocated{DefaultWeights}, &devices}})
			if diff := cmp.Diff(tt.want, devices); diff != "" {
				t.Errorf("scored devices (-want +got):\n%s", diff)
			}
		})
	}
}
