// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const victimTiers = `
actions: preempt
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
`

// runs is a running pod: its node, its job, the priority of both, and its cpu.
type runs struct {
	node, job string
	priority  int32
	cpu       string
}

// wants is a pending member of the gang: the node that it needs, or "" for any node, and its cpu.
type wants struct{ node, cpu string }

// evicting returns a cluster with the running pods and a gang of the pending members. Each job's pods may be evicted
// one by one.
func evicting(cpu map[string]string, running []runs, priority int32, waiting []wants) sessiontest.ClusterSpec {
	var w sessiontest.ClusterSpec
	for _, name := range slices.Sorted(maps.Keys(cpu)) {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Label("name", name).Capacity(schedtest.Resources{"cpu": cpu[name], "pods": "20"}).Obj())
	}
	priorities := map[int32]bool{priority: true}
	jobs := map[string]int32{}
	for i, r := range running {
		priorities[r.priority], jobs[r.job] = true, r.priority
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", r.job, i)).Group(r.job).Priority(r.priority).Req(schedtest.Resources{"cpu": r.cpu})
		w.Pods = append(w.Pods, pod.Node(r.node).Phase(v1.PodRunning).Obj())
	}
	for name, of := range jobs {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(name).MinMember(0).PriorityClass(fmt.Sprintf("p%d", of)).Obj())
	}
	for i, m := range waiting {
		pod := schedtest.MakePod().Name(fmt.Sprintf("gang-%d", i)).Group("gang").Priority(priority).Req(schedtest.Resources{"cpu": m.cpu})
		if m.node != "" {
			pod.NodeSelector("name", m.node)
		}
		w.Pods = append(w.Pods, pod.Obj())
	}
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("gang").MinMember(int32(len(waiting))).PriorityClass(fmt.Sprintf("p%d", priority)).Obj())
	for p := range priorities {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(fmt.Sprintf("p%d", p), p))
	}
	return w
}

// helper is a plugin that a test defines.
type helper sessiontest.Plugin

func (h helper) spec() framework.PluginSpec {
	return framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		h.Called = "helper"
		return (*sessiontest.Plugin)(&h), nil
	})}
}

// registered registers the actions, and returns them as sessions run them.
func registered(registry *framework.Registry, actions ...framework.Action) (found []vcframework.Action) {
	for _, action := range actions {
		registry.RegisterAction(action)
		adapted, _ := vcframework.GetAction(action.Name())
		found = append(found, adapted)
	}
	return found
}

// unobserved ignores the results of the actions that evict.
