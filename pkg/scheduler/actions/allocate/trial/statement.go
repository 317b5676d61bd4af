// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// Changes are the placements that one trial made in the session. They are committed, kept or discarded as a whole.
type Changes struct {
	run    *state.Run
	Placed []placement
}

// placement is a placed task, with a statement of its own that can undo it.
type placement struct {
	task *api.TaskInfo
	stmt *vcframework.Statement
}

// assign places the task on the chosen node. After an error the session is unchanged.
func (t *Changes) assign(task *api.TaskInfo, c feasible.Choice) error {
	node := t.run.Index.Nodes[c.Node]
	p := placement{task, vcframework.NewStatement(t.run.Session.Session)}
	if !c.Idle() || t.run.PipelineOnly {
		task.Pod.Spec.NodeName = node.Name // event handlers reserve claims on this node; the statement's Allocate sets the name itself
		if err := p.stmt.Pipeline(task, node.Name, false); err != nil {
			resetTask(t.run, task, p.stmt.UnPipeline(task))
			return whyRefused(t.run, task)
		}
	} else if err := p.stmt.Allocate(task, node); err != nil {
		resetTask(t.run, task, p.stmt.UnAllocate(task))
		return whyRefused(t.run, task)
	}
	if err := devicesReserved(t.run, task, node); err != nil {
		p.stmt.Discard()
		resetTask(t.run, task, nil)
		return err
	}
	t.Placed = append(t.Placed, p)
	t.run.Finder.Placed(task, node)
	return nil
}

// errByHandler stands for the error of an event handler, which upstream's statement logs and does not return.
var errByHandler = errors.New("refused by a plugin after all filters accepted the node (the scheduler's log has the error)")

// whyRefused returns why a plugin could not reserve resources for a task that was just placed.
func whyRefused(s *state.Run, task *api.TaskInfo) error {
	if err := s.Session.WhyUnreserved(task); err != nil {
		return err
	}
	return errByHandler
}

// resetTask resets fields that upstream leaves set in a task that was taken back. err is the error of taking it back,
// which is logged.
func resetTask(s *state.Run, task *api.TaskInfo, err error) {
	if err != nil {
		klog.ErrorS(err, "Reverting a placement failed", "pod", klog.KObj(task.Pod))
	}
	task.NodeName = ""
	task.Pod.Spec.NodeName = ""
	s.Finder.TakenBack(task)
}

// devicesReserved detects a failure that upstream's predicates plugin only logs: if a node's devices refuse the pod,
// the pod is not added to the node that the Kubernetes predicates see.
func devicesReserved(s *state.Run, task *api.TaskInfo, node *api.NodeInfo) error {
	names := state.Devices(task, node)
	if len(names) == 0 {
		return nil
	}
	seen := s.Session.NodeMap[node.Name].GetPods()
	if slices.ContainsFunc(seen, func(p fwk.PodInfo) bool { return p.GetPod().UID == task.Pod.UID }) {
		return nil
	}
	return fmt.Errorf("refused by the node's devices (%s); the scheduler's log has the error", strings.Join(names, ", "))
}

// Discard takes all placements back, the last one first.
func (t *Changes) Discard() {
	for _, p := range slices.Backward(t.Placed) {
		p.stmt.Discard()
		resetTask(t.run, p.task, nil)
	}
	t.Placed = nil
}

// commit hands the placed tasks over to be bound, except tasks that wait for resources being released. The waiting
// tasks keep their nodes until the session closes, which undoes their placements.
func (t *Changes) commit(job *api.JobInfo) {
	for _, p := range t.Placed {
		p.stmt.Commit()
	}
	created := job.CreationTimestamp.Time
	metrics.UpdateE2eSchedulingDurationByJob(job.Name, string(job.Queue), job.Namespace, metrics.Duration(created))
	metrics.UpdateE2eSchedulingLastTimeByJob(job.Name, string(job.Queue), job.Namespace, t.run.Now())
	t.run.Session.Placed(job.UID)
}

// addPlacement adds the nodes of the placed tasks to the map.
func (t *Changes) addPlacement(nodes map[api.TaskID]string) {
	for _, p := range t.Placed {
		nodes[p.task.UID] = p.task.NodeName
	}
}

// nodes returns the nodes of the placed tasks.
func (t *Changes) nodes() map[int32]bool {
	nodes := map[int32]bool{}
	t.addTo(nodes)
	return nodes
}

func (t *Changes) addTo(nodes map[int32]bool) {
	for _, p := range t.Placed {
		if node, ok := t.run.Index.Number(p.task.NodeName); ok {
			nodes[node] = true
		}
	}
}
