// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTasksAreAddedOrRemovedUntilTheyMatchTheOffer(t *testing.T) {
	tr := synthetic(50, 1)
	half := *tr
	half.tasks = tr.tasks[:len(tr.tasks)/2]
	twice := *tr
	twice.tasks = slices.Concat(tr.tasks, tr.tasks)
	for name, tr := range map[string]*trace{"as many": tr, "half": &half, "twice": &twice} {
		asked, largest := 0, 0
		for _, task := range tr.arrivals(1) {
			asked += task.size()
			largest = max(largest, task.size())
		}
		if want := int(offered * float64(tr.size())); asked < want-largest || asked > want+largest {
			t.Errorf("%s: the tasks ask for %d, want %d, give or take one", name, asked, want)
		}
	}
}

func TestEqualSeedsHaveEqualOrders(t *testing.T) {
	tr := synthetic(50, 1)
	if !slices.Equal(tr.arrivals(1), tr.arrivals(1)) {
		t.Error("the same seed has another order")
	}
	if slices.Equal(tr.arrivals(1), tr.arrivals(2)) {
		t.Error("another seed has the same order")
	}
}

func TestGangsHoldTheTasksInTheirOrder(t *testing.T) {
	list := synthetic(50, 1).arrivals(1)
	for gangs, bounds := range map[bool][2]int{false: {1, 1}, true: {minGang, maxGang}} {
		grouped := jobs(list, gangs, 1)
		for i, job := range grouped {
			if len(job) > bounds[1] || len(job) < bounds[0] && i < len(grouped)-1 {
				t.Errorf("gangs %t: job %d has %d tasks, want %d to %d", gangs, i, len(job), bounds[0], bounds[1])
			}
		}
		if !slices.Equal(slices.Concat(grouped...), list) {
			t.Errorf("gangs %t: the jobs do not hold the tasks in their order", gangs)
		}
	}
}

func TestFiguresAreOfWhenSoMuchHasArrived(t *testing.T) {
	p := &progress{total: 10_000}
	gpu := []task{{gpus: 1, milliGPU: 1000}}
	for i := range 13 {
		p.note(gpu, i != 2 && i != 9 && i < 11) // The third, the tenth and the last two are not placed.
		p.note([]task{{milliCPU: 1000}}, true)
	}
	want := figures{80, 80, 80, 90} // At 95%, ten have arrived, as at 100%.
	if diff := cmp.Diff(want, p.end()); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(figures{85, 90, 95, 100}, mean([]figures{{80, 90, 90, 100}, {90, 90, 100, 100}})); diff != "" {
		t.Errorf("mean (-want +got):\n%s", diff)
	}
}
