// SPDX-License-Identifier: Apache-2.0

package random

import (
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// oneByOne is a plugin that couples all tasks, and whose filter results may depend on anything. Beside it, allocate
// can cache and batch nothing.
type oneByOne struct{}

const oneByOneName = "one-by-one"

func oneByOneSpec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: oneByOneName,
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return oneByOne{}, nil }),
	}
}

func (oneByOne) Name() string { return oneByOneName }

func (oneByOne) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPredicateFn(oneByOneName, func(*api.TaskInfo, *api.NodeInfo) error { return nil })
}

func (oneByOne) OnSessionClose(*framework.Session) {}

// coupled returns the instance with a configuration in which every task is placed one by one.
func (in instance) coupled() instance {
	in.conf = strings.TrimRight(in.conf, "\n") + "\n  - name: " + oneByOneName + "\n"
	return in
}

// TestBatchAndOneByOne places instances in batches, and with every task placed one by one. Both keep all constraints,
// and with one gang both place it or neither does.
func TestBatchAndOneByOne(t *testing.T) {
	for name, test := range map[string]struct {
		mix
		same bool
	}{
		"one gang":           {mix{gangs: 1, subGroups: 10}, true},
		"one gang, topology": {mix{gangs: 1, subGroups: 20, topology: true}, true},
		"alike tasks":        {mix{gangs: 6, alike: true}, true},
		"many gangs":         {mix{gangs: 6, coupled: 30, subGroups: 10}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.registry.RegisterPlugin(oneByOneSpec())
			batchReady, singleReady := 0, 0
			eachSeed(t, func(seed uint64) bool {
				in, single := test.mix.instance(seed), test.mix.instance(seed).coupled()
				batch, oneByOne := b.run(in, b.ours), b.run(single, b.ours)
				if *randomSeed > 0 {
					t.Log(describe(in, map[string]outcome{"batch": batch, "one by one": oneByOne}))
				}
				ok := true
				for name, found := range map[string][]fault{"batch": faults(in, batch), "one by one": faults(single, oneByOne)} {
					for _, fault := range found {
						ok = false
						t.Errorf("-random.seed=%d: %s: %s", seed, name, fault)
					}
				}
				l, r := ready(in, batch), ready(single, oneByOne)
				batchReady += l
				singleReady += r
				if test.same && l != r {
					ok = false
					t.Errorf("-random.seed=%d: %d gangs are ready as a batch, %d one by one", seed, l, r)
				}
				return ok
			})
			t.Logf("ready gangs: %d as batches, %d one by one", batchReady, singleReady)
			if *randomSeed == 0 && batchReady == 0 {
				t.Error("no gang was placed: the instances are no test")
			}
		})
	}
}
