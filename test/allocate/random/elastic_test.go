// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// elasticInstance returns jobs with more tasks than their minimum, in several queues, on one node without room for
// all of them. Only the order decides which tasks are placed.
func elasticInstance(seed uint64) instance {
	c := &cluster{dice: newDice(seed, 0), room: map[string]size{}, slots: map[string]int{}}
	c.world.Nodes = append(c.world.Nodes, schedtest.MakeNode().Name("node").Capacity(size{cpu: 1000 * c.between(4, 40), memory: 1000}.capacity(110)).Obj())
	c.drawQueues()
	for i := range c.between(2, 6) {
		name := fmt.Sprintf("job-%d", i)
		tasks := c.between(1, 12)
		gang := schedtest.MakePodGroup().Name(name).MinMember(int32(c.between(1, min(tasks, pick(c.dice, 1, 3, 12)))))
		if n := len(c.world.Queues); n > 0 && c.chance(80) {
			gang.Queue(c.world.Queues[c.IntN(n)].Name)
		}
		if c.chance(40) {
			gang.PriorityClass(pick(c.dice, "priority-10", "priority-20"))
		}
		c.world.PodGroups = append(c.world.PodGroups, gang.Obj())
		asks := size{cpu: pick(c.dice, 500, 1000, 1000, 2000)}
		for j := range tasks {
			pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%02d", name, j)).Group(name).Req(asks.resources())
			if c.chance(10) {
				pod.Req(schedtest.Resources{}) // The task is not one that allocate places, but counts for the minimum.
			}
			c.world.Pods = append(c.world.Pods, pod.Obj())
		}
	}
	return instance{seed: seed, world: c.world, conf: mix{}.conf(newDice(seed, 1))}
}

// TestElasticJobsTakeTurns checks that our action binds the same tasks as upstream's: once jobs have their minimum,
// queues and jobs take turns, with one more task each. Upstream's action calls the plugins for the whole state of a job
// each time.
func TestElasticJobsTakeTurns(t *testing.T) {
	b := newBench(t)
	bound := 0
	eachSeed(t, func(seed uint64) bool {
		var got, want outcome
		for range 5 { // The order of a map affects the rounding of the deserved share in upstream's proportion plugin.
			want, got = b.run(elasticInstance(seed), b.upstream), b.run(elasticInstance(seed), b.ours)
			if maps.Equal(want.bound, got.bound) {
				break
			}
		}
		bound += len(got.bound)
		if *randomSeed > 0 {
			t.Logf("%s", describe(elasticInstance(seed), map[string]outcome{"upstream": want, "ours": got}))
		}
		if diff := cmp.Diff(want.bound, got.bound); diff != "" {
			t.Errorf("-random.seed=%d: bound (-upstream +ours):\n%s", seed, diff)
			return false
		}
		return true
	})
	if bound == 0 {
		t.Error("nothing was placed: the instances are no test")
	}
}
