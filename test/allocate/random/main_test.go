// SPDX-License-Identifier: Apache-2.0

package random

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
)

var (
	randomSeeds = rounds.Flag("random.seeds", 60, 500, "how many instances of each mix are drawn")
	randomSeed  = flag.Uint64("random.seed", 0, "draw only the instance of this seed, and show it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Upstream logs at length which tasks it cannot place.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// failuresShown is the number of failed seeds after which a test ends.
const failuresShown = 5

// eachSeed calls fn for each seed until failuresShown of them have failed.
func eachSeed(t *testing.T, fn func(seed uint64) (ok bool)) {
	t.Helper()
	eachSeedOf(randomSeeds.Of(t), fn)
}

// eachSeedOf does the same for a given number of seeds.
func eachSeedOf(seeds int, fn func(seed uint64) (ok bool)) {
	if *randomSeed > 0 {
		fn(*randomSeed)
		return
	}
	failures := 0
	for seed := uint64(1); seed <= uint64(seeds) && failures < failuresShown; seed++ {
		if !fn(seed) {
			failures++
		}
	}
}
