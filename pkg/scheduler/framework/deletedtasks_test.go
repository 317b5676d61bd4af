// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// recorder is a plugin that limits queues. It records the request and the numbers of tasks with which its function was
// last called.
type recorder struct {
	cpu         float64
	tasks, gone int
	// again reports whether the call comes from QueueUse.Admits, which the function itself has called.
	again bool
	// copies is the number of tasks that QueueUse.Asked returns for a copy of the task.
	copies int
	// leaves are the tasks that give way to any gang.
	leaves []*api.TaskInfo
}

func (*recorder) Name() string                      { return "recorder" }
func (*recorder) OnSessionClose(*framework.Session) {}
func (a *recorder) InSession() any {
	return sessiontest.LeavingFn(func(*api.TaskInfo) []*api.TaskInfo { return a.leaves })
}

func (a *recorder) OnSessionOpen(ssn *framework.Session) {
	ssn.AddAllocatableFn("recorder", func(queue *api.QueueInfo, task *api.TaskInfo) bool {
		if !a.again {
			a.again = true
			defer func() { a.again = false }()
			return ssn.QueueUse.Admits(ssn.QueueUse.AskFor(queue, task))
		}
		tasks, gone := ssn.QueueUse.Asked(task)
		other := *task
		copies, _ := ssn.QueueUse.Asked(&other)
		a.cpu, a.tasks, a.gone, a.copies = task.Resreq.MilliCPU, len(tasks), len(gone), len(copies)
		return true
	})
}

// TestDeletedTasksFreeTheQueuesThatCountThem checks that deleted tasks free resources only in queues that count them.
// Queue q and its sibling use 3 CPUs each, their parent is p, and 8 CPUs are requested in q. A task of the sibling
// frees no resources of q, but frees resources of p if queues are nested.
func TestDeletedTasksFreeTheQueuesThatCountThem(t *testing.T) {
	tests := []struct {
		nested       bool
		q, p         string
		gone         []string
		want         bool
		ofTheRequest float64
	}{
		{q: "11", p: "64", want: true, ofTheRequest: 8000},
		{q: "10", p: "64", want: false, ofTheRequest: 8000},
		{q: "8", p: "64", gone: []string{"own"}, want: true, ofTheRequest: 5000},
		{q: "7", p: "64", gone: []string{"own"}, want: false, ofTheRequest: 5000},
		{q: "11", p: "64", gone: []string{"sibling", "stranger"}, want: true, ofTheRequest: 8000},
		{q: "10", p: "64", gone: []string{"sibling", "stranger"}, want: false, ofTheRequest: 8000},
		{nested: true, q: "11", p: "14", want: true, ofTheRequest: 8000},
		{nested: true, q: "11", p: "13", want: false},
		{nested: true, q: "8", p: "11", gone: []string{"own"}, want: true, ofTheRequest: 5000},
		{nested: true, q: "7", p: "11", gone: []string{"own"}, want: false},
		{nested: true, q: "11", p: "11", gone: []string{"sibling", "stranger"}, want: true, ofTheRequest: 5000},
		{nested: true, q: "10", p: "11", gone: []string{"sibling"}, want: false},
		{nested: true, q: "11", p: "10", gone: []string{"sibling"}, want: false},
		{nested: true, q: "8", p: "8", gone: []string{"own", "sibling"}, want: true, ofTheRequest: 2000},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("nested %t, q %s, p %s, without %v", tt.nested, tt.q, tt.p, tt.gone), func(t *testing.T) {
			queue := func(name, parent, cpu string) *v1beta1.Queue {
				made := schedtest.MakeQueue().Name(name).Capability(schedtest.Resources{"cpu": cpu}).Weight(1).Obj()
				made.Spec.Parent = parent
				return made
			}
			three := schedtest.MakePod().Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "3"})
			four := schedtest.MakePod().Group("g").Req(schedtest.Resources{"cpu": "4"})
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes:  []*v1.Node{schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "64", "pods": "9"}).Obj()},
				Queues: []*v1beta1.Queue{queue("root", "", "64"), queue("p", "root", tt.p), queue("q", "p", tt.q), queue("sibling", "p", "64")},
				PodGroups: []*v1beta1.PodGroup{
					schedtest.MakePodGroup().Name("g").Queue("q").MinMember(2).Obj(),
					schedtest.MakePodGroup().Name("own").Queue("q").Phase(v1beta1.PodGroupRunning).Obj(),
					schedtest.MakePodGroup().Name("sibling").Queue("sibling").Phase(v1beta1.PodGroupRunning).Obj(),
				},
				Pods: []*v1.Pod{
					three.Name("stranger").Scheduler("other").Obj(), four.Name("g-0").Obj(), four.Name("g-1").Obj(),
					three.Name("own").Scheduler("volcano").Group("own").Obj(), three.Name("sibling").Group("sibling").Obj(),
				},
			})
			defer cluster.Close()
			plugin, registry := &recorder{}, framework.NewRegistry()
			registry.RegisterPlugin(framework.PluginSpec{Name: "recorder", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return plugin, nil })})
			scheduler := cluster.Scheduler(registry, fmt.Sprintf(`
actions: allocate
tiers:
- plugins:
  - name: recorder
  - name: capacity
    enableHierarchy: %t
`, tt.nested))
			defer scheduler.Close()
			ssn := scheduler.Open()
			defer ssn.Close()
			var gone, waiting []*api.TaskInfo
			for _, task := range ssn.Nodes["n"].Tasks {
				if slices.Contains(tt.gone, task.Name) {
					gone = append(gone, task)
				}
			}
			for _, task := range ssn.Jobs["ns/g"].Tasks {
				waiting = append(waiting, task)
			}
			use := &ssn.QueueUse
			if got := use.Admits(use.Ask(ssn.Queues["q"], gone).With(waiting[0]).With(waiting[1])); got != tt.want || plugin.cpu != tt.ofTheRequest {
				t.Errorf("admitted: %t, and plugins get %v cpu/1000, want %t and %v", got, plugin.cpu, tt.want, tt.ofTheRequest)
			}
			plugin.leaves = gone // A task that is deleted for two reasons counts once.
			if plugin.cpu > 0 {
				use.Admits(use.Ask(ssn.Queues["q"], gone).With(waiting[0]).With(waiting[1]))
			}
			if plugin.cpu > 0 && (plugin.tasks != 2 || plugin.gone != len(tt.gone) || plugin.copies != 1) {
				t.Errorf("a plugin is recorder about %d tasks with %d gone, and %d for a copy", plugin.tasks, plugin.gone, plugin.copies)
			}
		})
	}
}
