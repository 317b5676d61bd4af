// SPDX-License-Identifier: Apache-2.0

package fragmentation_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

const gib = 1 << 30

// half and pair are the task classes of the cases below: half a GPU with 2 cores, which is three times as frequent as
// two GPUs with 4 cores.
var (
	half = fragmentation.TaskClass{MilliCPU: 2000, GPUs: 1, Core: 50, GPUMemory: 50}
	pair = fragmentation.TaskClass{MilliCPU: 4000, GPUs: 2, Core: 100, GPUMemory: 100}
)

// seen returns the task classes after these tasks were added.
func seen(classes ...fragmentation.TaskClass) *fragmentation.TaskClasses {
	h := fragmentation.NewHistogram()
	for _, class := range classes {
		h.Add(class)
	}
	return h.TaskClasses()
}

// gpus returns GPUs with these free hundredths, of cores and memory alike.
func gpus(free ...int64) []fragmentation.GPU {
	var list []fragmentation.GPU
	for _, f := range free {
		list = append(list, fragmentation.GPU{Core: f, Memory: f})
	}
	return list
}

func TestFragment(t *testing.T) {
	with := func(k fragmentation.TaskClass, change func(*fragmentation.TaskClass)) fragmentation.TaskClass {
		change(&k)
		return k
	}
	mix := []fragmentation.TaskClass{half, half, half, pair}
	cases := map[string]struct {
		classes []fragmentation.TaskClass
		node    fragmentation.Node
		want    float64
	}{
		"nothing is known of tasks":             {nil, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100, 30)}, 0},
		"no GPUs":                               {mix, fragmentation.Node{MilliCPU: 8000}, 0},
		"all GPUs in use":                       {mix, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(0, 0)}, 0},
		"every task class can use all":          {mix, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100, 100)}, 0},
		"scraps, and too few GPUs for one":      {mix, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100, 30)}, 0.75*0.3 + 0.25*1.3},
		"CPU for none":                          {mix, fragmentation.Node{MilliCPU: 1000, GPUs: gpus(100, 100)}, 2 + 2 - 1/(2.5/0.875)},
		"CPU for the next, and not for all":     {mix, fragmentation.Node{MilliCPU: 4000, GPUs: gpus(100, 100)}, 2 - 4/(2.5/0.875)},
		"memory for none":                       {[]fragmentation.TaskClass{with(half, func(k *fragmentation.TaskClass) { k.Memory = 4 * gib })}, fragmentation.Node{MilliCPU: 8000, Memory: 2 * gib, GPUs: gpus(100)}, 1 + 1 - 0.25},
		"another model":                         {[]fragmentation.TaskClass{half, with(half, func(k *fragmentation.TaskClass) { k.Models = fragmentation.Models("H800", "H100") })}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100, 100), Model: "T4"}, 1},
		"the model is one of the allowed":       {[]fragmentation.TaskClass{with(half, func(k *fragmentation.TaskClass) { k.Models = fragmentation.Models("H800", "H100") })}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100, 100), Model: "H100"}, 0},
		"a NIC has too little left":             {[]fragmentation.TaskClass{with(half, func(k *fragmentation.TaskClass) { k.NICs, k.NICShare = 2, 25 })}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100), NICs: []int64{100, 20}}, 1},
		"NICs have enough left":                 {[]fragmentation.TaskClass{with(half, func(k *fragmentation.TaskClass) { k.NICs, k.NICShare = 2, 25 })}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100), NICs: []int64{100, 25}}, 0},
		"a GPU's cores without its memory":      {[]fragmentation.TaskClass{half}, fragmentation.Node{MilliCPU: 8000, GPUs: []fragmentation.GPU{{Core: 80, Memory: 20}}}, 0.5},
		"a task without GPUs has no task class": {[]fragmentation.TaskClass{half, {MilliCPU: 96_000}}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100)}, 0},
		"a task that wants none of a GPU too":   {[]fragmentation.TaskClass{half, {MilliCPU: 96_000, GPUs: 1}}, fragmentation.Node{MilliCPU: 8000, GPUs: gpus(100)}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := seen(tc.classes...).Fragment(&tc.node); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("the fragment is %.6f GPUs, want %.6f", got, tc.want)
			}
		})
	}
}

// randomClass returns a random task class with GPUs.
func randomClass(rng *rand.Rand) fragmentation.TaskClass {
	k := fragmentation.TaskClass{MilliCPU: rng.Int64N(16_000), Memory: rng.Int64N(64 * gib), GPUs: 1, Core: 1 + rng.Int64N(100), GPUMemory: 1 + rng.Int64N(100)}
	if rng.IntN(3) == 0 {
		k.GPUs, k.Core, k.GPUMemory = 1+rng.Int64N(8), 100, 100
	}
	if rng.IntN(4) == 0 {
		k.NICs, k.NICShare = 1+rng.Int64N(2), 1+rng.Int64N(100)
	}
	k.Models = []string{"", "", "T4", "T4|V100"}[rng.IntN(4)]
	return k
}

func randomNode(rng *rand.Rand) fragmentation.Node {
	n := fragmentation.Node{MilliCPU: rng.Int64N(96_000), Memory: rng.Int64N(512 * gib), Model: []string{"T4", "V100", "P100"}[rng.IntN(3)]}
	for range 1 + rng.IntN(8) {
		n.GPUs = append(n.GPUs, fragmentation.GPU{Core: rng.Int64N(101), Memory: rng.Int64N(101)})
		n.NICs = append(n.NICs, rng.Int64N(101))
	}
	return n
}

// onRandomNodes calls f with random nodes and task classes.
func onRandomNodes(f func(rng *rand.Rand, classes *fragmentation.TaskClasses, n fragmentation.Node, fragment float64)) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var tasks []fragmentation.TaskClass
		for range 1 + rng.IntN(12) {
			tasks = append(tasks, randomClass(rng))
		}
		classes, n := seen(tasks...), randomNode(rng)
		f(rng, classes, n, classes.Fragment(&n))
	}
}

func TestUsingAnUnusableShareShrinksTheFragmentByItsSize(t *testing.T) {
	onRandomNodes(func(rng *rand.Rand, _ *fragmentation.TaskClasses, n fragmentation.Node, _ float64) {
		var tasks []fragmentation.TaskClass
		for range 1 + rng.IntN(12) {
			class := randomClass(rng)
			class.Core, class.GPUMemory = 20+rng.Int64N(81), 20+rng.Int64N(81)
			tasks = append(tasks, class)
		}
		classes := seen(tasks...)
		scrap := &n.GPUs[rng.IntN(len(n.GPUs))]
		*scrap = fragmentation.GPU{Core: rng.Int64N(20), Memory: rng.Int64N(101)}
		before, size := classes.Fragment(&n), float64(scrap.Core+scrap.Memory)/200
		*scrap = fragmentation.GPU{}
		if after := classes.Fragment(&n); after > before-size+1e-9 {
			t.Fatalf("after %.3f unusable GPUs were used, the fragment changes from %.4f to %.4f; node %+v, task classes %+v", size, before, after, n, tasks)
		}
	})
}

// TestFragmentationIsAtMostTwiceTheFreeAmount: free GPUs count once for the next task, and once for the tasks after it.
func TestFragmentationIsAtMostTwiceTheFreeAmount(t *testing.T) {
	onRandomNodes(func(_ *rand.Rand, _ *fragmentation.TaskClasses, n fragmentation.Node, fragment float64) {
		free := 0.0
		for _, g := range n.GPUs {
			free += float64(g.Core+g.Memory) / 200
		}
		if fragment < 0 || fragment > 2*free+1e-9 {
			t.Fatalf("the fragment is %.4f of %.4f free GPUs; node %+v", fragment, free, n)
		}
	})
}

func TestMoreRoomBesideTheGPUsNeverGrowsTheFragment(t *testing.T) {
	onRandomNodes(func(rng *rand.Rand, classes *fragmentation.TaskClasses, n fragmentation.Node, fragment float64) {
		more := n
		more.MilliCPU += rng.Int64N(32_000)
		more.Memory += rng.Int64N(64 * gib)
		more.NICs = append(slices.Clone(n.NICs), 100)
		if grown := classes.Fragment(&more); grown > fragment+1e-9 {
			t.Fatalf("with more room the fragment changes from %.4f to %.4f; nodes %+v and %+v", fragment, grown, n, more)
		}
	})
}

func TestTheOrderOfGPUsDoesNotMatter(t *testing.T) {
	onRandomNodes(func(rng *rand.Rand, classes *fragmentation.TaskClasses, n fragmentation.Node, fragment float64) {
		other := n
		other.GPUs = slices.Clone(n.GPUs)
		rng.Shuffle(len(other.GPUs), func(i, j int) { other.GPUs[i], other.GPUs[j] = other.GPUs[j], other.GPUs[i] })
		if got := classes.Fragment(&other); got != fragment {
			t.Fatalf("the fragment is %v, and %v in another order; node %+v", fragment, got, n)
		}
	})
}

func BenchmarkFragment(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := fragmentation.NewHistogram()
	for range 10_000 {
		h.Add(randomClass(rng))
	}
	classes := h.TaskClasses()
	nodes := make([]fragmentation.Node, 1000)
	for i := range nodes {
		nodes[i] = randomNode(rng)
	}
	b.ReportAllocs()
	b.ReportMetric(float64(classes.Len()), "kinds")
	for i := 0; b.Loop(); i++ {
		classes.Fragment(&nodes[i%len(nodes)])
	}
}
