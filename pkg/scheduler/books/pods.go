// SPDX-License-Identifier: Apache-2.0

package books

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// record is the state of the pods with one name. It has three inputs. shown is the pod that the watch shows, hold is a
// transaction's reservation, and victim is the UID of the evicted pod.
type record struct {
	shown  *v1.Pod
	hold   *hold
	victim types.UID
	// evicted is when the victim was evicted.
	evicted time.Time
	// stays reports whether the pod is being deleted, but is not expected to end soon (leaving.go). slot is the
	// record's index in the heap Pods.changes.
	stays bool
	slot  int

	// task is the task that the record's job has; nil while the watch shows no pod. The task's node has a copy.
	task *api.TaskInfo
	// volumes are the volumes that the pod attaches, as of when its claims could last be read. unread reports whether a
	// claim could not be read when the task was made.
	volumes map[v1.ResourceName]int64
	unread  bool
}

// Pods holds the records of all pods. The records determine which task is in which job and on which node.
type Pods struct {
	lock    sync.Locker
	records map[api.TaskID]*record
	jobs    *Jobs
	nodes   *Nodes
	admits  func(*v1.Pod) bool
	volumes func(*v1.Pod) (map[v1.ResourceName]int64, error)
	boundIn func(*v1.Pod) string
	// deleted are the records of pods that are being deleted and count against their queues. changes has the times at
	// which records change by the passage of time.
	deleted map[api.TaskID]*record
	changes changes
	now     func() time.Time
}

// Show is called with each version of a pod that the watch shows. A pod that the books need not hold (Config.Pod) is
// treated as deleted.
func (p *Pods) Show(pod *v1.Pod) {
	p.lock.Lock()
	defer p.lock.Unlock()
	key := api.PodKey(pod)
	if !p.admits(pod) {
		p.hide(key)
		return
	}
	r := p.records[key]
	if r == nil {
		r = &record{}
		p.records[key] = r
	}
	if r.shown != nil && r.shown.UID != pod.UID { // the watch missed the deletion of the former pod of that name
		r.victim, r.volumes = "", nil
	}
	r.shown = keepOwners(pod, r.shown)
	if at, _, evicted := conditions.EvictedAt(pod); evicted && !r.isVictim() { // a former leader has evicted the pod
		r.victim, r.evicted = pod.UID, at
	}
	if r.hold.isOver(pod) {
		r.hold = nil
	}
	p.settleRecord(key, r)
}

// Hide is called when the watch shows that the pod was deleted. It does nothing if the books already have a newer pod
// of that name.
func (p *Pods) Hide(pod *v1.Pod) {
	p.lock.Lock()
	defer p.lock.Unlock()
	key := api.PodKey(pod)
	if r := p.records[key]; r != nil && r.shown != nil && r.shown.UID == pod.UID {
		p.hide(key)
	}
}

func (p *Pods) hide(key api.TaskID) {
	r := p.records[key]
	if r == nil {
		return
	}
	r.shown, r.victim, r.volumes = nil, "", nil
	if r.hold.isOver(nil) {
		r.hold = nil
	}
	p.settleRecord(key, r)
}

// Unread reports whether a claim of the pod could not be read yet. The caller must hold the mutex.
func (p *Pods) Unread(pod *v1.Pod) bool {
	r := p.records[api.PodKey(pod)]
	return r != nil && r.unread && r.shown.UID == pod.UID
}

// ReadClaims is called when a claim of the pod has changed. If one of the pod's claims could not be read before, it
// rebuilds the pod's task.
func (p *Pods) ReadClaims(pod *v1.Pod) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.Unread(pod) {
		key := api.PodKey(pod)
		p.settleRecord(key, p.records[key])
	}
}

// ReadClaimsAgain is called when a StorageClass is added. It rebuilds the tasks of all pods with a claim that could not
// be read.
func (p *Pods) ReadClaimsAgain() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for key, r := range p.records {
		if r.unread {
			p.settleRecord(key, r)
		}
	}
}

// Task returns the task of the pod; nil if the books do not hold the pod with this UID. The caller must hold the mutex
// and must not change the task.
func (p *Pods) Task(key api.TaskID, uid types.UID) *api.TaskInfo {
	if r := p.records[key]; r != nil && r.shown != nil && r.shown.UID == uid {
		return r.task
	}
	return nil
}

// settleRecord makes the record's task again from the pod that the watch shows, the transaction's reservation and the
// eviction. It updates the task's job and nodes. Only settleRecord and move change the tasks of jobs and nodes.
func (p *Pods) settleRecord(key api.TaskID, r *record) {
	former := r.task
	p.strike(r)
	r.task, r.unread = nil, false
	if r.shown != nil {
		p.makeTask(r)
		p.keepGang(r.task, former)
	}
	p.updateDeleted(key, r)
	if r.task != nil {
		p.book(r)
	}
	p.tidy(former)
	if r.shown == nil && r.hold == nil {
		delete(p.records, key)
	}
}

// makeTask makes the record's task from its pod.
func (p *Pods) makeTask(r *record) {
	pod := r.shown
	if h := r.holding(); h != nil {
		pod = h.reserved(pod)
	}
	task := api.NewTaskInfo(pod)
	volumes, err := p.volumes(r.shown)
	if err != nil {
		logger().V(3).Info("A claim of the pod cannot be read yet", "pod", task.Namespace+"/"+task.Name, "reason", err.Error())
		r.unread = true
	} else {
		r.volumes = volumes
	}
	for name, count := range r.volumes {
		task.Resreq.AddScalar(name, float64(count)) // this also changes InitResreq, which is the same object
	}
	task.BestEffort = task.InitResreq.IsEmpty()
	r.task = task
	r.place()
}

// keepGang keeps a task that has a node in its former gang, if its pod now names a gang in another queue. When the
// books first see the pod on a node, its job moves to the queue in which the pod was bound (adopt).
func (p *Pods) keepGang(task, former *api.TaskInfo) {
	switch {
	case task.NodeName == "":
	case former == nil || former.UID != task.UID || former.NodeName == "":
		p.adopt(task, task.Pod)
	case former.Job != "" && p.jobs.queueOf(former.Job) != p.jobs.queueOf(task.Job):
		task.Job = former.Job
	}
}

// place sets the task's node and status from the record's inputs: the pod that the watch shows, the transaction's
// reservation and the eviction.
func (r *record) place() {
	task, h := r.task, r.holding()
	switch {
	case h != nil:
		task.NodeName, task.Status = h.node, h.status
		task.Pod, task.NumaInfo = h.marked(r.shown), h.numa.Clone()
	case r.victim == r.shown.UID && !api.CompletedStatus(task.Status):
		task.Status = api.Releasing
	}
}

// holding returns the transaction's reservation of the pod that the watch shows. It returns nil if the pod has no
// reservation, or if the watch shows the pod on a node.
func (r *record) holding() *hold {
	if h := r.hold; h != nil && h.uid == r.shown.UID && r.shown.Spec.NodeName == "" {
		return h
	}
	return nil
}

// keepOwners returns the pod. If the pod lost its controller, the returned copy has the owners of the former version.
// So if a controller is deleted without its pods, the scheduler still treats the controller as their owner.
func keepOwners(pod, former *v1.Pod) *v1.Pod {
	if former == nil || former.UID != pod.UID || metav1.GetControllerOf(pod) != nil || metav1.GetControllerOf(former) == nil {
		return pod
	}
	own := *pod
	own.OwnerReferences = slices.Clone(former.OwnerReferences)
	return &own
}
