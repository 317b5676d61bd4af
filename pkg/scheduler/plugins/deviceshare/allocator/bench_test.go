// SPDX-License-Identifier: Apache-2.0

package allocator

import "testing"

func BenchmarkAllocate(b *testing.B) {
	joint := func(gpus, rdma string) *Request {
		return parse(b, makePod(list(nvidiaName, gpus, rdmaName, rdma), "device-joint-allocate", jointPCIe, "device-allocate-hint", vfHint))
	}
	empty := nodeA().state(b)
	plain := func(gpus string) *Request { return parse(b, makePod(list(nvidiaName, gpus))) }
	benchmarks := map[string]struct {
		state   *State
		request *Request
	}{
		"joint of 8 GPUs and 4 NICs":           {empty, joint("8", "4")},
		"joint of 5 GPUs and 4 NICs":           {empty, joint("5", "4")},
		"joint of 3 GPUs":                      {empty, joint("3", "1")},
		"joint of 8 GPUs, a GPU is in use":     {empty.With(whole(3)), joint("8", "4")},
		"joint of 2 GPUs, all NICs are in use": {empty.With(nics(100, 1, 2, 3, 4)), joint("2", "1")},
		"joint of 4 GPUs, 3 roots have NICs":   {empty.With(whole(1, 3)).With(nics(100, 4)), joint("4", "3")},
		"one GPU":                              {empty, plain("1")},
		"four GPUs":                            {empty, plain("4")},
		"a share of a GPU":                     {empty.With(part(50, 3)), parse(b, makePod(list(koordGPU, "50")))},
	}
	for name, bb := range benchmarks {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			o := Options{Strategy: LeastAllocated{DefaultWeights}}
			for b.Loop() {
				_, _ = Allocate(bb.state, bb.request, o)
			}
		})
	}
}

func BenchmarkAllocateTogether(b *testing.B) {
	joint := parse(b, makePod(list(nvidiaName, "1", rdmaName, "1"), "device-joint-allocate", jointPCIe, "device-allocate-hint", vfHint))
	pair := parse(b, makePod(list(nvidiaName, "2"), "device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`))
	single := parse(b, makePod(list(nvidiaName, "1")))
	empty := nodeA().state(b)
	benchmarks := map[string]struct {
		state    *State
		requests []*Request
	}{
		"eight members":                      {empty, []*Request{joint, joint, joint, joint, joint, joint, joint, joint}},
		"refused after all tries":            {empty.With(whole(0, 2)), []*Request{single, pair, single, pair, pair}},
		"refused after all tries, as equals": {empty.With(whole(0, 2)), []*Request{pair, pair, pair}},
	}
	for name, bb := range benchmarks {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = AllocateTogether(bb.state, bb.requests, Options{Strategy: LeastAllocated{DefaultWeights}})
			}
		})
	}
}
