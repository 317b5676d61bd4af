package app

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// fuzzConfs have between them upstream's actions and plugins that need nothing from outside.
var fuzzConfs = []string{
	`
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}, {name: network-topology-aware}]
`, `
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: nodeorder}, {name: pdb}, {name: task-topology}, {name: nodegroup, enableHierarchy: true, arguments: {strict: false}}]
`, `
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: numa-aware}, {name: resourcequota}, {name: resource-strategy-fit}, {name: tdm}]
`,
}

const (
	// fuzzCycles is how many cycles an innocent gang may have to wait, with at most maxEvil objects beside it.
	fuzzCycles = 40
	// fuzzSeeds is how many random seeds there are, each so many bytes longer than the one before.
	fuzzSeeds, fuzzSeedStep = 30, 64
	// fuzzCycleTime is how long a cycle may take, with a wide margin for a busy machine.
	fuzzCycleTime = 20 * time.Second
)

// FuzzNobodyStopsOthers: whatever objects there are, a gang that fits is placed, and no cycle takes long. Which objects
// there are the bytes say (evil_test.go); the first one says which configuration is in force.
func FuzzNobodyStopsOthers(f *testing.F) {
	for conf := range fuzzConfs {
		f.Add([]byte{byte(conf)})
	}
	random := rand.NewChaCha8([32]byte{})
	for seed := range fuzzSeeds {
		data := make([]byte, 1+seed*fuzzSeedStep)
		_, _ = random.Read(data) // it never fails
		f.Add(data)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	forGood.Do(keepGoing)
	caught := &strays{}
	caught.catch()
	var confs []*config.Config
	for _, text := range fuzzConfs {
		path := filepath.Join(f.TempDir(), "scheduler.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
		cfg, err := config.NewLoader(path, config.NewCatalogue(PluginSpecs()...), false).Load()
		if err != nil {
			f.Fatal(err)
		}
		confs = append(confs, cfg)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		conf := d.below(len(confs))
		cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
			schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "1000", "memory": "1000Gi", "pods": "1000"}).Obj())
		innocents(cluster)
		hyperNodes := evil(d, cluster)
		s := newTestScheduler(t, cluster, confs[conf])
		s.strays = caught
		awaitHyperNodes(t, s, hyperNodes)
		for range fuzzCycles {
			inTime(t, s)
			if !slices.Contains(nodesOfInnocents(s), "") {
				return
			}
		}
		t.Errorf("with conf %d the innocent gang is not placed after %d cycles; set aside: %v", conf, fuzzCycles, s.cache.SetAside())
	})
}

// awaitHyperNodes returns when upstream has tried to take the HyperNodes in.
func awaitHyperNodes(t *testing.T, s *scheduler, names []string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, fuzzCycleTime, true, func(context.Context) (bool, error) {
		s.cache.HyperNodesInfo.Lock()
		defer s.cache.HyperNodesInfo.Unlock()
		known := s.cache.HyperNodesInfo.HyperNodes()
		return !slices.ContainsFunc(names, func(name string) bool {
			return known[name] == nil || known[name].HyperNode.ResourceVersion == "" // one that is only named has none
		}), nil
	})
	if err != nil {
		t.Fatalf("the HyperNodes %v are not in the cache: %v", names, err)
	}
}

func inTime(t *testing.T, s *scheduler) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.cycle()
	}()
	select {
	case <-done:
	case <-time.After(fuzzCycleTime):
		panic("a cycle does not return") // with the stacks of all goroutines
	}
}
