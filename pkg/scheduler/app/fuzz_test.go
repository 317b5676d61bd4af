// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// fuzzConfs use, taken together, all of upstream's actions and plugins that need no external service.
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
`, `
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
`, `
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: coscheduling, arguments: {starvationAfter: 1s, reservedPercent: 100}}]
`,
}

const (
	// fuzzCycles is the maximum number of cycles until innocent gangs are placed, with at most maxEvil objects of
	// each kind beside them.
	fuzzCycles = 40
	// fuzzSeeds is the number of random seeds. Each seed is fuzzSeedStep bytes longer than the one before.
	fuzzSeeds, fuzzSeedStep = 30, 64
	// fuzzCycleTime is the time limit of a cycle, with a wide margin for a busy machine.
	fuzzCycleTime = 20 * time.Second
)

// FuzzNoObjectStopsOthers checks that gangs that fit are placed and no cycle takes long, whatever objects exist. The
// bytes decide on the objects (hostileobjects_test.go), and the first byte on the configuration.
func FuzzNoObjectStopsOthers(f *testing.F) {
	for conf := range fuzzConfs {
		f.Add([]byte{byte(conf)})
	}
	random := rand.NewChaCha8([32]byte{})
	for seed := range fuzzSeeds {
		data := make([]byte, 1+seed*fuzzSeedStep)
		_, _ = random.Read(data) // Read never fails.
		f.Add(data)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	keepGoingOnce.Do(keepGoing)
	caught := &orphanPanics{}
	caught.catch()
	var confs []*config.Config
	for _, text := range fuzzConfs {
		confs = append(confs, loaded(f, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		conf := d.below(len(confs))
		cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
			schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "1000", "memory": "1000Gi", "pods": "1000"}).Obj())
		innocents(cluster)
		innocentInHyperNode(cluster)
		addHostileObjects(d, cluster)
		s := newTestScheduler(t, cluster, confs[conf])
		s.orphanPanics = caught
		var waiting []api.JobID
		for range fuzzCycles {
			inTime(t, s)
			if waiting = waitingInnocents(s); len(waiting) == 0 {
				return
			}
		}
		t.Errorf("with conf %d the innocent gangs %v are not placed after %d cycles; quarantined: %v", conf, waiting, fuzzCycles, s.cache.Quarantine().Counts())
	})
}

// innocentInHyperNode adds a HyperNode with node n, and a gang that requires it.
func innocentInHyperNode(cluster *schedtest.Cluster) {
	cluster.Put(schedtest.MakeHyperNode().Name("innocent").Tier(1).Nodes("n").Obj())
	cluster.Put(schedtest.MakePodGroup().Name("t").MinMember(1).Phase(v1beta1.PodGroupPending).Topology(v1beta1.HardNetworkTopologyMode, 1).Obj())
	cluster.Put(schedtest.MakePod().Name("t0").Group("t").Req(schedtest.Resources{"cpu": "1"}).Obj())
}

// waitingInnocents returns the innocent gangs that have a task without a node in the cache.
func waitingInnocents(s *scheduler) (waiting []api.JobID) {
	s.cache.Books().Lock()
	defer s.cache.Books().Unlock()
	for _, gang := range []api.JobID{"ns/g", "ns/t"} {
		for _, task := range s.cache.Books().Jobs.Get(gang).Tasks {
			if task.NodeName == "" {
				waiting = append(waiting, gang)
				break
			}
		}
	}
	return waiting
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
