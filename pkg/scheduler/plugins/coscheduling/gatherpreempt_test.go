// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// twoBlocks has two full nodes of 4 cpus, each in its own block. Their pods have 1 cpu each. low1 and low2 pods have a
// low priority, and the others have the high priority of gang x. Gang x needs 4 cpus; some of its members may run.
func twoBlocks(rule string, low1, low2 int, runs ...*v1.Pod) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{PriorityClasses: []*schedulingv1.PriorityClass{schedtest.PriorityClass("low", 1), schedtest.PriorityClass("high", 100)}}
	fill := func(node, class string, priority int32, n int) {
		group := class + "-" + node
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(group).MinMember(0).PriorityClass(class).Obj())
		w.Pods = append(w.Pods, members(schedtest.MakePod().Req(cores("1")).Node(node).Phase(v1.PodRunning).Priority(priority), group, n)...)
	}
	for i, low := range []int{low1, low2} {
		node := fmt.Sprint("n", i+1)
		w.Nodes = append(w.Nodes, holds("4").Name(node).Label("spine", "s").Label("block", fmt.Sprint("b", i)).Obj())
		full := 4
		for _, pod := range runs {
			if pod.Spec.NodeName == node {
				full--
			}
		}
		fill(node, "low", 1, low)
		fill(node, "high", 100, full-low)
	}
	x := gangNamed("x", 4, asks(rule))
	x.Spec.PriorityClassName = "high"
	w.PodGroups = append(w.PodGroups, x)
	w.Pods = append(append(w.Pods, runs...), waiting("x", len(runs), 4-len(runs), func(p *schedtest.PodBuilder) { p.Priority(100) })...)
	return w
}

// TestNoPodIsEvictedForAGangThatStaysUngathered checks that preempt evicts pods only if the gang can be bound
// afterwards.
func TestNoPodIsEvictedForAGangThatStaysUngathered(t *testing.T) {
	for name, c := range map[string]struct {
		given   sessiontest.ClusterSpec
		evicted int
	}{
		"it may lie in both blocks":                             {twoBlocks("NodeTopologyLayer prefer", 2, 2), 4},
		"it is to lie in one, and could":                        {twoBlocks("Block must", 4, 4), 4},
		"it is to lie in one, and could in neither":             {twoBlocks("Block must", 2, 2), 0},
		"there is room only where its members are not":          {twoBlocks("Block must", 0, 4, running("x", 0, "n1")), 0},
		"there is room where its members are":                   {twoBlocks("Block must", 3, 4, running("x", 0, "n1")), 3},
		"it is to have a multiple of members on a node":         {twoBlocks("NodeTopologyLayer prefer 4", 2, 2), 0},
		"it is to have a multiple of members, and there are":    {twoBlocks("NodeTopologyLayer prefer 2", 2, 2), 4},
		"it is to have a multiple of members, on one node more": {twoBlocks("NodeTopologyLayer prefer 2", 1, 3), 0},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, c.given, preemptConf, func(t *testing.T, w *simulation) {
				w.preempts()
				evicted := 0
				for range 60 {
					time.Sleep(time.Second)
					before := len(w.evicted)
					w.session()
					for range len(w.evicted) - before { // the controller creates a replacement
						evicted++
						w.add(schedtest.MakePod().Req(cores("1")).Priority(1).Name(fmt.Sprint("again-", evicted)).Group("low-n1").Obj())
					}
				}
				if evicted != c.evicted || w.runs("x") != (c.evicted > 0) {
					t.Errorf("%d pods are evicted, want %d; the gang runs: %t; %s", evicted, c.evicted, w.runs("x"), w.condition("x", "Unschedulable").Message)
				}
			})
		})
	}
}
