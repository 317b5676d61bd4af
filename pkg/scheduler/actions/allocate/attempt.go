package allocate

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
)

// attempt is what one try at placing tasks has changed in the session. It is kept or discarded whole.
type attempt struct {
	a      *allocation
	placed []placement
	// waiting is how many of the placed tasks wait for resources being released.
	waiting int
}

// placement is one placed task with the statement of its own that undoes it.
type placement struct {
	task *api.TaskInfo
	stmt *vcframework.Statement
}

// put places the task on the node. An error leaves the session as it was.
func (t *attempt) put(task *api.TaskInfo, c choice) error {
	node := t.a.board.nodes[c.node]
	p := placement{task, vcframework.NewStatement(t.a.ssn.Session)}
	if !c.class.now() {
		task.Pod.Spec.NodeName = node.Name // where what it claims is reserved, as Allocate does
		if err := p.stmt.Pipeline(task, node.Name, false); err != nil {
			t.a.undone(task, p.stmt.UnPipeline(task))
			return err
		}
		t.waiting++
	} else {
		if err := p.stmt.Allocate(task, node); err != nil {
			t.a.undone(task, p.stmt.UnAllocate(task))
			return err
		}
		if err := t.a.reserved(task, node); err != nil {
			p.stmt.Discard()
			t.a.undone(task, nil)
			return err
		}
	}
	t.placed = append(t.placed, p)
	t.a.exclusions.place(task, node)
	return nil
}

// undone resets what upstream leaves behind in a task that was taken back.
func (a *allocation) undone(task *api.TaskInfo, err error) {
	if err != nil {
		klog.ErrorS(err, "Taking back a placement failed", "pod", klog.KObj(task.Pod))
	}
	task.NodeName = ""
	task.Pod.Spec.NodeName = ""
	a.exclusions.remove(task)
}

// reserved finds a failure that upstream's predicates plugin only logs: when a node's devices refuse the pod, it is not
// added to the node that the Kubernetes predicates see.
func (a *allocation) reserved(task *api.TaskInfo, node *api.NodeInfo) error {
	for _, name := range api.RegisteredDevices {
		devices, ok := node.Others[name].(api.Devices)
		if !ok || !devices.HasDeviceRequest(task.Pod) {
			continue
		}
		seen := a.ssn.NodeMap[node.Name].GetPods()
		if !slices.ContainsFunc(seen, func(p fwk.PodInfo) bool { return p.GetPod().UID == task.Pod.UID }) {
			return fmt.Errorf("node %s: %s: allocating the devices of pod %s/%s failed", node.Name, name, task.Namespace, task.Name)
		}
	}
	return nil
}

// discard takes all placements back, the last first.
func (t *attempt) discard() {
	for _, p := range slices.Backward(t.placed) {
		p.stmt.Discard()
		t.a.undone(p.task, nil)
	}
	t.placed, t.waiting = nil, 0
}

// commit hands the placed tasks over to be bound.
func (t *attempt) commit(job *api.JobInfo) {
	for _, p := range t.placed {
		p.stmt.Commit()
	}
	created := job.CreationTimestamp.Time
	metrics.UpdateE2eSchedulingDurationByJob(job.Name, string(job.Queue), job.Namespace, metrics.Duration(created))
	metrics.UpdateE2eSchedulingLastTimeByJob(job.Name, string(job.Queue), job.Namespace, t.a.now())
	t.a.ssn.Placed(job.UID)
}

// keep leaves the placements in the session without binding them: tasks that wait for resources hold their place against
// others until the session ends. What plugins reserved for their claims is given back then.
func (t *attempt) keep() {
	claims := slices.DeleteFunc(slices.Clone(t.placed), func(p placement) bool { return !hasClaims(p.task.Pod) })
	if len(claims) == 0 {
		return
	}
	t.a.ssn.OnClose(func() {
		for _, p := range slices.Backward(claims) {
			p.stmt.Discard()
			t.a.undone(p.task, nil)
		}
	})
}

// addNodes adds the nodes of the placed tasks.
func (t *attempt) addNodes(nodes map[api.TaskID]string) {
	for _, p := range t.placed {
		nodes[p.task.UID] = p.task.NodeName
	}
}
