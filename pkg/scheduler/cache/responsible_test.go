// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestWhichObjectsAreThisSchedulers(t *testing.T) {
	r, err := newResponsible([]string{"ours"}, []string{"zone: a", "bad", "disk:"})
	if err != nil {
		t.Fatal(err)
	}
	for what, is := range map[string][2]bool{
		"a pod of this scheduler":               {r.forPod(schedtest.MakePod().Name("p").Scheduler("ours").Obj()), true},
		"a pod of another, without node":        {r.forPod(schedtest.MakePod().Name("p").Scheduler("other").Obj()), false},
		"a pod of another on a node":            {r.forPod(schedtest.MakePod().Name("p").Scheduler("other").Node("n").Obj()), true},
		"a node with a label that is asked for": {r.forNode(schedtest.MakeNode().Name("n").Label("zone", "a").Obj()), true},
		"a node with another value":             {r.forNode(schedtest.MakeNode().Name("n").Label("zone", "b").Obj()), false},
		"a node with what a bad selector names": {r.forNode(schedtest.MakeNode().Name("n").Label("disk", "").Obj()), false},
	} {
		if is[0] != is[1] {
			t.Errorf("%s is this scheduler's: %v, want %v", what, is[0], is[1])
		}
	}
}

// TestEachObjectIsOneSchedulers checks that each object belongs to one scheduler. Schedulers that share a cluster by
// hash omit no object and share none, and a gang's objects are assigned by their owner.
func TestEachObjectIsOneSchedulers(t *testing.T) {
	t.Setenv(multiScheduler, "true")
	t.Setenv(schedulerCount, "3")
	var all []*responsible
	for i := range 3 {
		t.Setenv(ownPodName, fmt.Sprintf("volcano-%d", i))
		r, err := newResponsible([]string{schedtest.SchedulerName}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for i := range 100 {
		pod := schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Obj()
		node := schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Obj()
		pods, nodes := 0, 0
		for _, r := range all {
			if r.forPod(pod) {
				pods++
			}
			if r.forNode(node) {
				nodes++
			}
		}
		if pods != 1 || nodes != 1 {
			t.Errorf("pod %s is %d schedulers', node %s %d, want one each", pod.Name, pods, node.Name, nodes)
		}
	}
	t.Setenv(ownPodName, "volcano")
	const want = `SCHEDULER_POD_NAME is "volcano": with MULTI_SCHEDULER_ENABLE=true it must be the name of a pod of a StatefulSet, which ends in - and a number`
	if _, err := newResponsible(nil, nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
