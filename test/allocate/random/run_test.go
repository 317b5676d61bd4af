// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// bench runs instances, one after the other on one cluster.
type bench struct {
	cluster  *sessiontest.Cluster
	registry *framework.Registry
	upstream vcframework.Action
	ours     vcframework.Action
}

// newBench returns a bench whose API server has the objects, for all instances.
func newBench(t *testing.T, objects ...runtime.Object) *bench {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: objects})
	t.Cleanup(cluster.Close)
	b := &bench{cluster: cluster, registry: framework.NewRegistry(), upstream: vcallocate.New()}
	b.registry.RegisterAction(allocate.New())
	b.ours, _ = vcframework.GetAction(b.upstream.Name())
	return b
}

// outcome is the result for an instance's pods. Maps are from a pod's "namespace/name" to its node.
type outcome struct {
	// bound pods were committed.
	bound map[string]string
	// held pods have resources reserved in the session, because other members of their gang are pipelined.
	held map[string]string
	// pipelined pods wait for releasing resources.
	pipelined map[string]string
	evicted   []string
	// leaks are differences between the session's sums and the nodes of its tasks.
	leaks []string
}

// run schedules the instance in a separate session.
func (b *bench) run(in instance, action vcframework.Action) outcome {
	return b.runInTurn(in, action)[0]
}

// runInTurn runs the actions one after the other in one session, and returns the outcome after each.
func (b *bench) runInTurn(in instance, actions ...vcframework.Action) []outcome {
	b.cluster.Load(in.world)
	if in.prepare != nil {
		in.prepare(b.cluster)
	}
	ssn := b.cluster.Open(b.registry, in.conf)
	defer ssn.Close()
	defer release(ssn)
	var out []outcome
	for _, action := range actions {
		// A failure of one action must not prevent the next action from trying.
		for _, job := range ssn.Jobs {
			job.ResetFitErr()
		}
		ssn.Run(action)
		out = append(out, outcome{
			bound: ssn.Binds(), held: tasksIn(ssn, api.Allocated), pipelined: ssn.Pipelined(), evicted: ssn.Evicts(),
			leaks: leaks(ssn, strings.Contains(in.conf, "predicates")),
		})
	}
	return out
}

// release reverts the committed placements, because plugins keep state, such as volumes, that outlives the session.
// The action itself reverts placements that are held in the session only.
func release(ssn *sessiontest.Session) {
	statement := vcframework.NewStatement(ssn.Session.Session)
	for _, job := range ssn.Jobs {
		for _, task := range maps.Clone(job.TaskStatusIndex[api.Binding]) {
			if err := statement.UnAllocate(task); err != nil {
				panic(err)
			}
		}
	}
}

func tasksIn(ssn *sessiontest.Session, status api.TaskStatus) map[string]string {
	out := map[string]string{}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			out[task.Namespace+"/"+task.Name] = task.NodeName
		}
	}
	return out
}

// digest is equal for outcomes that place the same pods on the same nodes.
func (o outcome) digest() string {
	var b strings.Builder
	for _, placed := range []map[string]string{o.bound, o.held, o.pipelined} {
		for _, pod := range sortedKeys(placed) {
			fmt.Fprintf(&b, "%s=%s ", pod, placed[pod])
		}
		b.WriteString("| ")
	}
	return b.String()
}

// leaks compares the session's nodes, as seen by the actions and by the predicates, with the nodes of its tasks, and
// reports pods that keep the name of a node they are not on. Without their plugin, the predicates see no placements.
func leaks(ssn *sessiontest.Session, withPredicates bool) []string {
	var out []string
	for _, name := range sortedKeys(ssn.Nodes) {
		node := ssn.Nodes[name]
		used, releasing, pipelined := api.EmptyResource(), api.EmptyResource(), api.EmptyResource()
		var here []string
		for _, task := range node.Tasks {
			here = append(here, task.Namespace+"/"+task.Name)
			switch task.Status {
			case api.Pipelined:
				pipelined.Add(task.Resreq)
				continue
			case api.Releasing:
				releasing.Add(task.Resreq)
			}
			used.Add(task.Resreq)
		}
		for what, pair := range map[string][2]*api.Resource{
			"used": {node.Used, used}, "releasing": {node.Releasing, releasing}, "pipelined": {node.Pipelined, pipelined},
			"idle": {node.Idle, node.Allocatable.Clone().SubWithoutAssert(used)},
		} {
			if !pair[0].Equal(pair[1], api.Zero) {
				out = append(out, fmt.Sprintf("node %s: %s is <%v>, its tasks make <%v>", name, what, pair[0], pair[1]))
			}
		}
		var predicates []string
		for _, info := range ssn.NodeMap[name].GetPods() {
			predicates = append(predicates, info.GetPod().Namespace+"/"+info.GetPod().Name)
		}
		slices.Sort(here)
		slices.Sort(predicates)
		if withPredicates && !slices.Equal(here, predicates) {
			out = append(out, fmt.Sprintf("node %s: predicates see %v, its tasks are %v", name, predicates, here))
		}
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if task.NodeName != "" || task.Pod.Spec.NodeName != "" {
				out = append(out, fmt.Sprintf("task %s is pending with node %q, its pod with %q", task.Name, task.NodeName, task.Pod.Spec.NodeName))
			}
		}
	}
	slices.Sort(out)
	return out
}
