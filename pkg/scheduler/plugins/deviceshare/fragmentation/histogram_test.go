// SPDX-License-Identifier: Apache-2.0

package fragmentation_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

// scrap is a node with only 30 hundredths of a GPU free. They are a fragment for task class half, and not for small.
var scrap = fragmentation.Node{MilliCPU: 64_000, GPUs: gpus(30)}

var small = fragmentation.TaskClass{MilliCPU: 2000, GPUs: 1, Core: 20, GPUMemory: 20}

// weightOfHalf returns the weight of task class half: the part of the scrap that is a fragment.
func weightOfHalf(h *fragmentation.Histogram) float64 { return h.TaskClasses().Fragment(&scrap) / 0.3 }

func add(h *fragmentation.Histogram, class fragmentation.TaskClass, times int) {
	for range times {
		h.Add(class)
	}
}

func TestATaskCountsHalfAfter4096OtherTasks(t *testing.T) {
	h := fragmentation.NewHistogram()
	add(h, half, 4096)
	if got := weightOfHalf(h); math.Abs(got-1) > 1e-9 {
		t.Fatalf("the only task class has weight %.4f, want 1", got)
	}
	add(h, small, 4096)
	if got := weightOfHalf(h); math.Abs(got-1./3) > 1e-9 {
		t.Errorf("4,096 tasks before 4,096 others have weight %.4f, want a third", got)
	}
	if got := weightOfHalf(h); math.Abs(got-1./3) > 1e-9 {
		t.Errorf("after a session without new tasks the weight is %.4f, want a third", got)
	}
}

func TestTheOrderOfTasksOfASessionDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var tasks []fragmentation.TaskClass
	for range 900 {
		tasks = append(tasks, randomClass(rng))
	}
	node := randomNode(rng)
	want := seen(tasks...).Fragment(&node)
	for range 5 {
		rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		if got := seen(tasks...).Fragment(&node); got != want {
			t.Fatalf("the fragment is %v, and %v if the tasks are added in another order", want, got)
		}
	}
}

func TestSimilarRequestsShareATaskClass(t *testing.T) {
	h := fragmentation.NewHistogram()
	for i := range int64(300) {
		h.Add(fragmentation.TaskClass{MilliCPU: 11_000 + i, GPUs: 1, Core: 100, GPUMemory: 100})
	}
	classes := h.TaskClasses()
	if classes.Len() != 1 {
		t.Errorf("the histogram has %d task classes, want 1", classes.Len())
	}
	mean := fragmentation.Node{MilliCPU: 11_150, GPUs: gpus(100)} // the tasks request 11.1495 cores on average
	if got := classes.Fragment(&mean); got != 0 {
		t.Errorf("on a node with room for their mean request the fragment is %.4f GPUs, want none", got)
	}
	less := fragmentation.Node{MilliCPU: 11_149, GPUs: gpus(100)}
	if got := classes.Fragment(&less); got < 1 {
		t.Errorf("on a node with less room than their mean request the fragment is %.4f GPUs, want all", got)
	}
}

func TestManyTaskClassesOfATenantDoNotReplaceFrequentOnes(t *testing.T) {
	h := fragmentation.NewHistogram()
	add(h, half, 500)
	h.TaskClasses()
	for i := range int64(20_000) {
		h.Add(fragmentation.TaskClass{GPUs: 1 + i%5000, Core: 100, GPUMemory: 100, MilliCPU: i % 7, Models: fragmentation.Models("m" + strconv.FormatInt(i, 10))})
		if i%100 == 0 {
			h.TaskClasses()
		}
	}
	classes := h.TaskClasses()
	if classes.Len() > 96 {
		t.Errorf("%d task classes are used, want at most 96", classes.Len())
	}
	if got := weightOfHalf(h); got == 0 {
		t.Error("the task class with 500 tasks was dropped")
	}
}

func TestTasksThatNoMachineCouldTakeDoNotCount(t *testing.T) {
	h := fragmentation.NewHistogram()
	add(h, half, 1)
	want := weightOfHalf(h)
	for name, change := range map[string]func(*fragmentation.TaskClass){
		"GPUs":             func(k *fragmentation.TaskClass) { k.GPUs = 1_000_000_000 },
		"more of each GPU": func(k *fragmentation.TaskClass) { k.Core = 101 },
		"memory of a GPU":  func(k *fragmentation.TaskClass) { k.GPUMemory = math.MaxInt64 },
		"NICs":             func(k *fragmentation.TaskClass) { k.NICs = 65 },
		"more of each NIC": func(k *fragmentation.TaskClass) { k.NICs, k.NICShare = 1, 101 },
		"CPU":              func(k *fragmentation.TaskClass) { k.MilliCPU = math.MaxInt64 },
		"CPU, overflown":   func(k *fragmentation.TaskClass) { k.MilliCPU = math.MinInt64 },
		"memory":           func(k *fragmentation.TaskClass) { k.Memory = math.MaxInt64 },
		"no memory at all": func(k *fragmentation.TaskClass) { k.Memory = -1 },
	} {
		class := half
		change(&class)
		add(h, class, 100)
		if got := weightOfHalf(h); got != want {
			t.Errorf("%s: the weight of half is %v, want %v", name, got, want)
		}
	}
}

func TestManyModelsAreAsGoodAsAny(t *testing.T) {
	var names []string
	for i := range 17 {
		names = append(names, strconv.Itoa(i))
	}
	if got := fragmentation.Models(names...); got != "" {
		t.Errorf("17 models are stored as %q, want none", got)
	}
	if got, want := fragmentation.Models("b", "a", "b"), fragmentation.Models("a", "b"); got != want {
		t.Errorf("the same models are %q and %q", got, want)
	}
}

func TestTasksMayBeAddedDuringScoring(t *testing.T) { // for the race detector
	h := fragmentation.NewHistogram()
	var wg sync.WaitGroup
	for i := range uint64(4) {
		rng := rand.New(rand.NewPCG(i, 5))
		wg.Go(func() {
			for range 200 {
				h.Add(randomClass(rng))
				node := randomNode(rng)
				h.TaskClasses().Fragment(&node)
			}
		})
	}
	wg.Wait()
}
