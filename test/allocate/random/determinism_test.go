// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything is a mix with all features.
var everything = mix{gangs: 6, coupled: 40, subGroups: 20, topology: true, subGroupTierNames: true}

// answers returns the instances of the determinism tests for this seed.
func answers(seed uint64) []instance {
	return []instance{
		everything.instance(seed),
		mix{gangs: 8, coupled: 20}.instance(seed),
		drawForest(seed, forestMix{gangs: 3, mixed: true}),
	}
}

// TestOneSnapshotOneAnswer places the pods of one cluster 100 times and compares the placements. The cluster is
// created again each time with its objects in another order. Nodes and pods must be distinguished by name, not by the
// order of events.
func TestOneSnapshotOneAnswer(t *testing.T) {
	b := newBench(t)
	for seed := uint64(1); seed <= 8; seed++ {
		want := map[int]string{}
		for run := range 100 {
			for i, in := range answers(seed) {
				shuffle(newDice(uint64(run), 4), &in)
				got := b.run(in, b.ours).digest()
				if run == 0 {
					want[i] = got
				}
				if diff := cmp.Diff(strings.Fields(want[i]), strings.Fields(got)); diff != "" {
					t.Fatalf("seed %d, instance %d, run %d differs from the first (-first +this):\n%s", seed, i, run, diff)
				}
			}
		}
	}
}

// shuffle changes the order of the cluster's objects.
func shuffle(d dice, in *instance) {
	w := &in.world
	mix := func(n int, swap func(i, j int)) { d.Shuffle(n, swap) }
	mix(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] })
	mix(len(w.Pods), func(i, j int) { w.Pods[i], w.Pods[j] = w.Pods[j], w.Pods[i] })
	mix(len(w.PodGroups), func(i, j int) { w.PodGroups[i], w.PodGroups[j] = w.PodGroups[j], w.PodGroups[i] })
	mix(len(w.Queues), func(i, j int) { w.Queues[i], w.Queues[j] = w.Queues[j], w.Queues[i] })
	mix(len(w.HyperNodes), func(i, j int) { w.HyperNodes[i], w.HyperNodes[j] = w.HyperNodes[j], w.HyperNodes[i] })
}

// digestVariable makes TestAnswersSurviveARestart print only its digest.
const digestVariable = "RANDOM_PRINT_DIGEST"

// TestAnswersSurviveARestart compares the placements of three processes. Each process has its own seeds for maps and
// hashes.
func TestAnswersSurviveARestart(t *testing.T) {
	b := newBench(t)
	sum := fnv.New64a()
	for seed := uint64(1); seed <= 100; seed++ {
		for _, in := range answers(seed) {
			fmt.Fprintln(sum, b.run(in, b.ours).digest())
		}
	}
	mine := fmt.Sprintf("digest %x", sum.Sum64())
	if os.Getenv(digestVariable) != "" {
		fmt.Println(mine)
		return
	}
	for range 2 {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), digestVariable+"=yes")
		printed, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("the process failed: %v\n%s", err, printed)
		}
		if !strings.Contains(string(printed), mine) {
			t.Errorf("this process has %q, another printed:\n%s", mine, printed)
		}
	}
}
