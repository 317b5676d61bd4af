// SPDX-License-Identifier: Apache-2.0

package books

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
)

// Reservation is what a transaction decides for a pod before the pod is bound.
type Reservation struct {
	// Owner identifies the member of the transaction. Owners are compared with ==.
	Owner any
	// Decided are annotations that will be written with the Binding. From now on the pod in the books has them, because
	// upstream reads the pod's devices from them.
	Decided map[string]string
	// NUMA is the CPUs and memory that the session chose.
	NUMA *api.TopologyInfo
}

// hold is a Reservation of a pod on a node.
type hold struct {
	owner   any
	uid     types.UID
	pod     *v1.Pod // as it was reserved
	node    string
	status  api.TaskStatus // Binding or Bound
	decided map[string]string
	numa    *api.TopologyInfo
	gang    api.JobID
}

// isOver reports whether the hold has ended. It ends once the pod is bound, and the watch shows the pod on a node,
// another pod of that name, or no pod (nil).
func (h *hold) isOver(shown *v1.Pod) bool {
	return h != nil && h.status == api.Bound && (shown == nil || shown.UID != h.uid || shown.Spec.NodeName != "")
}

// marked returns a copy of the pod with the requests that the transaction has reserved, and the annotations that it
// decided.
func (h *hold) marked(pod *v1.Pod) *v1.Pod {
	marked := h.reserved(pod)
	if len(h.decided) == 0 {
		return marked
	}
	marked.Annotations = maps.Clone(pod.Annotations)
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	maps.Copy(marked.Annotations, h.decided)
	return marked
}

// Reserve moves the wanted task to the node with status Binding. It calls prepare with the books' own task to get the
// Reservation; prepare must not change the task. If Reserve returns an error, nothing has changed.
func (p *Pods) Reserve(wanted *api.TaskInfo, node string, prepare func(*api.TaskInfo) (Reservation, error)) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	r, err := p.reservable(wanted)
	if err != nil {
		return err
	}
	n := p.nodes.entries[node]
	if n == nil || n.shown == nil {
		return fmt.Errorf("node %s was deleted after the pod was placed there", node)
	}
	p.nodes.countNode(n)
	if ok, short := r.task.Resreq.LessEqualWithResourcesName(n.info.Idle, api.Zero); !ok {
		return fmt.Errorf("node %s is short of %s", node, amounts(short, r.task.Resreq, n.info.Idle, "idle"))
	}
	reservation, err := prepare(r.task)
	if err != nil {
		return err
	}
	r.hold = &hold{
		owner: reservation.Owner, uid: r.shown.UID, pod: r.shown, node: node, status: api.Binding,
		decided: reservation.Decided, numa: reservation.NUMA, gang: r.task.Job,
	}
	p.move(r)
	return nil
}

// amounts lists the resources with the amounts that are requested, and the amounts in other, which word describes.
func amounts(names []string, requested, other *api.Resource, word string) string {
	slices.Sort(names)
	var parts []string
	for _, name := range names {
		resource := v1.ResourceName(name)
		parts = append(parts, fmt.Sprintf("%s (%s requested, %s %s)", name, quantity.Of(resource, requested.Get(resource)), quantity.Of(resource, other.Get(resource)), word))
	}
	return strings.Join(parts, ", ")
}

// reservable returns the record of the task. It returns an error if the task is not pending, if a transaction holds a
// pod of its name, or if the pod requests more now than when the session placed it.
func (p *Pods) reservable(wanted *api.TaskInfo) (*record, error) {
	if p.jobs.entries[wanted.Job] == nil {
		return nil, fmt.Errorf("PodGroup %s was deleted after its pod was placed", wanted.Job)
	}
	r := p.records[api.PodKey(wanted.Pod)]
	switch {
	case r == nil || r.task == nil || r.task.UID != wanted.UID || r.task.Job != wanted.Job:
		return nil, errors.New("the pod was deleted after it was placed")
	case r.task.Status != api.Pending:
		return nil, fmt.Errorf("task is %s, not Pending", r.task.Status)
	case r.hold != nil:
		return nil, fmt.Errorf("the transaction of a pod of that name, with UID %s, on node %s has not ended", r.hold.uid, r.hold.node)
	}
	if growth := growth(wanted.Pod, r.shown, "when it was placed"); growth != "" {
		return nil, fmt.Errorf("the pod was resized after it was placed: %s", growth)
	}
	return r, nil
}

// Bind records that the pod was bound by owner, the member that reserved its node. The watch may already have shown the
// bound pod.
func (p *Pods) Bind(key api.TaskID, owner any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	r := p.heldBy(key, owner)
	if r == nil {
		return
	}
	r.hold.status = api.Bound
	if r.hold.isOver(r.shown) {
		r.hold = nil
		p.settleRecord(key, r)
		return
	}
	p.move(r)
}

// Release ends the hold of owner, the member that reserved the node, because the pod was not bound. The state of the
// task is then again the state that the watch shows.
func (p *Pods) Release(key api.TaskID, owner any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if r := p.heldBy(key, owner); r != nil {
		r.hold = nil
		p.settleRecord(key, r)
	}
}

func (p *Pods) heldBy(key api.TaskID, owner any) *record {
	if r := p.records[key]; r != nil && r.hold != nil && r.hold.owner == owner {
		return r
	}
	return nil
}

// HeldGang returns the gang whose transaction holds the pod; false if no transaction holds it. The gang that the
// pod names may have changed since the transaction began.
func (p *Pods) HeldGang(pod *v1.Pod) (api.JobID, bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if r := p.records[api.PodKey(pod)]; r != nil && r.hold != nil && r.hold.uid == pod.UID {
		return r.hold.gang, true
	}
	return "", false
}

// move recomputes the node and status of the record's task, and updates its job and nodes. It is called when a
// transaction has reserved or bound the pod, when the pod was evicted, or when time alone has changed the task.
func (p *Pods) move(r *record) {
	p.strike(r)
	r.place()
	p.updateDeleted(api.PodKey(r.shown), r)
	p.book(r)
	p.tidy(r.task)
}

// Evict gives the task status Releasing. On its node, the task then counts as soon to be released for at most
// victimLeaves. Evict returns the task's pod and the PodGroup of the task's job. The PodGroup is nil if the job has
// none.
func (p *Pods) Evict(task *api.TaskInfo) (*v1.Pod, *api.PodGroup, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	r := p.records[api.PodKey(task.Pod)]
	if r == nil || r.task == nil || r.task.UID != task.UID {
		return nil, nil, fmt.Errorf("pod %s/%s with UID %s does not exist", task.Namespace, task.Name, task.UID)
	}
	if r.shown.Spec.NodeName == "" {
		return nil, nil, fmt.Errorf("pod %s/%s is on no node", task.Namespace, task.Name)
	}
	r.victim, r.evicted = r.shown.UID, p.now()
	p.move(r)
	var group *api.PodGroup
	if j := p.jobs.entries[r.task.Job]; j != nil {
		group = j.info.PodGroup
	}
	return r.shown, group, nil
}

// Spare reverts Evict, because the pod was not deleted. The task gets the status that the watch shows.
func (p *Pods) Spare(pod *v1.Pod) {
	p.lock.Lock()
	defer p.lock.Unlock()
	key := api.PodKey(pod)
	if r := p.records[key]; r != nil && r.victim == pod.UID {
		r.victim = ""
		p.settleRecord(key, r)
	}
}

// Held returns the number of pods for which a transaction holds a node.
func (p *Pods) Held() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	held := 0
	for _, r := range p.records {
		if r.hold != nil {
			held++
		}
	}
	return held
}
