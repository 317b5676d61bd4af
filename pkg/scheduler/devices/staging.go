// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Staging confines the effects of upstream's device code to the session. It handles placements of tasks, and placements
// that the session undoes.
//
// Upstream assigns devices to a placed task by writing annotations to the API server, before it is known whether the
// placement will last. It also enters them at once in the node's ledger, its record of the node's devices. If the
// placement is undone, upstream does not fully undo these changes. Staging changes this as follows:
//
//   - The annotations are set on the session's copy of the pod (client.go). They are written with the Binding, like all
//     annotations that the session sets, and are removed if the placement is undone.
//   - Each time a placement is made or undone, the ledgers of the node are rebuilt from the pods on the node.
//   - A task that did not get the devices that it requests is not placed. Upstream only logs this.
//   - A pre-bind step takes the locks of nodes (nodelock.go).
//
// A task that waits for resources being released need not get its devices yet, because other pods may still hold them.
type Staging struct {
	kinds  []kind
	locks  *nodeLocks
	client *client
	ssn    *vcframework.Session
	// pending maps the tasks that were Pending when the session began to the annotations of their pods at that time.
	// The session has its own copies of these pods.
	pending map[api.TaskID]map[string]string
	// pods are the pods of the session by name, because upstream's device code writes to a pod by its name.
	pods map[types.NamespacedName]*v1.Pod
	// before has, for each task, the values of its annotations before device code changed them; nil if the pod did not
	// have the annotation.
	before map[api.TaskID]map[string]*string
	// evicted are the tasks that the session has evicted.
	evicted map[api.TaskID]bool
	// opened has, by node, the state of MindCluster's NPUs when the session opened.
	opened map[string]chips
}

// NewStaging returns the staging of one session; nil if no kind of devices that upstream shares is enabled.
func NewStaging(kube kubernetes.Interface) *Staging {
	kinds := switchedOn()
	if len(kinds) == 0 {
		return nil
	}
	s := &Staging{
		kinds: kinds, locks: newNodeLocks(kinds),
		before: map[api.TaskID]map[string]*string{}, evicted: map[api.TaskID]bool{},
	}
	s.client = &client{Interface: kube}
	s.client.open.Store(s)
	return s
}

// Client returns the API client that the session's plugins must use.
func (s *Staging) Client() kubernetes.Interface { return s.client }

// Close ends the staging: all later writes through the client go to the API server.
func (s *Staging) Close() { s.client.open.Store(nil) }

// Begin sets the pods of the session. pending maps its pending tasks to the annotations of their pods. Begin removes
// the annotations that list devices from these pods: a pending pod has no devices, so such annotations are left over
// from a placement that was undone.
func (s *Staging) Begin(pending map[api.TaskID]map[string]string, snapshot *api.ClusterInfo) {
	s.pending, s.pods = pending, map[types.NamespacedName]*v1.Pod{}
	for _, job := range snapshot.Jobs {
		for uid, task := range job.Tasks {
			s.pods[types.NamespacedName{Namespace: task.Namespace, Name: task.Name}] = task.Pod
			if _, ok := pending[uid]; ok {
				for _, kind := range s.kinds {
					delete(task.Pod.Annotations, kind.holds)
				}
			}
		}
	}
}

// Watch registers handlers that are called when the session places a task or undoes a placement. It is called after all
// plugins have opened, so that its handlers run after theirs.
func (s *Staging) Watch(ssn *vcframework.Session) {
	s.ssn = ssn
	s.locks.nodes = ssn.Nodes
	s.opened = map[string]chips{}
	for name, node := range ssn.Nodes {
		if npus, ok := node.Others[vnpu.DeviceName].(*vnpu.NPUDevices); ok && npus != nil {
			s.opened[name] = chips{npus.Chips, npus.ConCache}.clone()
		}
	}
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: s.allocated, DeallocateFunc: s.deallocated})
}

func (s *Staging) allocated(event *vcframework.Event) {
	task := event.Task
	node := s.ssn.Nodes[task.NodeName]
	if node == nil || !s.asks(task.Pod) {
		return
	}
	s.locks.assignLocks(task.UID)
	switch {
	case !s.own(task):
		delete(s.evicted, task.UID)
		s.seen(task)
	case task.Status == api.Pipelined:
		s.locks.drop(task.UID)
	default:
		event.Err = s.lacking(task)
	}
	s.book(node)
}

func (s *Staging) deallocated(event *vcframework.Event) {
	task := event.Task
	node := s.ssn.Nodes[task.NodeName]
	if node == nil || !s.asks(task.Pod) {
		return
	}
	if task.Status == api.Releasing {
		s.evicted[task.UID] = true
	} else {
		s.unstage(task)
		s.locks.drop(task.UID)
	}
	s.book(node)
}

func (s *Staging) own(task *api.TaskInfo) bool {
	_, ok := s.pending[task.UID]
	return ok
}

func (s *Staging) asks(pod *v1.Pod) bool { return requestsAny(s.kinds, pod) }

// Steps returns the pre-bind steps that take the node locks for the placed task. It returns an error if the task did
// not get the devices that it requests.
func (s *Staging) Steps(task *api.TaskInfo, kube kubernetes.Interface) ([]binding.Step, error) {
	if err := s.lacking(task); err != nil {
		return nil, err
	}
	var steps []binding.Step
	for _, lock := range s.locks.of(task.UID) {
		steps = append(steps, lockStep(kube, lock.annotation))
	}
	return steps, nil
}

// lacking returns an error if the task did not get the devices that it requests. The error names the kind of the
// missing devices.
func (s *Staging) lacking(task *api.TaskInfo) error {
	for _, kind := range s.kinds {
		if _, got := s.before[task.UID][kind.holds]; kind.asks(task.Pod) && !got {
			return fmt.Errorf("node %s: the devices (%s) that pod %s/%s requests were not allocated", task.NodeName, kind.name, task.Namespace, task.Name)
		}
	}
	return nil
}

// seen makes a task whose eviction was undone visible to the Kubernetes predicates again. Upstream's predicates plugin
// removed the pod from its NodeInfo of the node at the eviction. When the eviction is undone, the plugin assigns
// devices to the task again. If no devices are free, it does not put the pod back.
func (s *Staging) seen(task *api.TaskInfo) {
	node := s.ssn.NodeMap[task.NodeName]
	if node == nil || slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == task.Pod.UID }) {
		return
	}
	info, _ := kubeframework.NewPodInfo(task.Pod) // like upstream, it ignores affinity terms that cannot be parsed
	node.AddPodInfo(info)
}

// stage applies annotation changes by upstream's device code to the session's copy of the pod; false if the session
// does not have the pod. It ignores changes to a pod that had its node before the session, because upstream makes and
// reverts such changes for victims.
func (s *Staging) stage(name types.NamespacedName, changes map[string]*string) (*v1.Pod, bool) {
	pod, ok := s.pods[name]
	if !ok {
		return nil, false
	}
	uid := api.TaskID(pod.UID)
	if _, own := s.pending[uid]; !own {
		return pod, true
	}
	before := s.before[uid]
	if before == nil {
		before = map[string]*string{}
		s.before[uid] = before
	}
	for key, value := range changes {
		if _, noted := before[key]; !noted {
			before[key] = nil
			if was, ok := pod.Annotations[key]; ok {
				before[key] = &was
			}
		}
		if value == nil {
			value = before[key]
		}
		annotate(pod, key, value)
	}
	s.copyAnnotations(pod)
	return pod, true
}

// unstage resets the annotations of the task's pod to their values before the placement.
func (s *Staging) unstage(task *api.TaskInfo) {
	for key, value := range s.before[task.UID] {
		annotate(task.Pod, key, value)
	}
	delete(s.before, task.UID)
	s.copyAnnotations(task.Pod)
}

// copyAnnotations copies the annotations of the session's pod to the copy of this pod that the pod lister of the
// session's plugins returns.
func (s *Staging) copyAnnotations(pod *v1.Pod) {
	if given, ok := s.ssn.PodLister.CachedPods[api.TaskID(pod.UID)]; ok {
		given.Annotations = maps.Clone(pod.Annotations)
	}
}

// annotate sets the annotation of the pod to the value. A nil value removes the annotation.
func annotate(pod *v1.Pod, key string, value *string) {
	switch {
	case value == nil:
		delete(pod.Annotations, key)
	case pod.Annotations == nil:
		pod.Annotations = map[string]string{key: *value}
	default:
		pod.Annotations[key] = *value
	}
}

// book rebuilds the node's ledgers, which record its devices and the pods that have them, from the pods on the node.
func (s *Staging) book(node *api.NodeInfo) {
	for _, kind := range s.kinds {
		pods := podsWith(node, kind.holds)
		switch ledger := node.Others[kind.name].(type) {
		case *vnpu.NPUDevices:
			opened, ok := s.opened[node.Name]
			if !ok {
				continue
			}
			now := opened.clone()
			ledger.Chips, ledger.ConCache = now.chips, now.users
			enter(ledger, slices.DeleteFunc(pods, func(pod *v1.Pod) bool { // the node's NPUs at the opening of the session (opened) already include pods placed before
				_, own := s.pending[api.TaskID(pod.UID)]
				return !own
			}))
			continue
		case *gpushare.GPUDevices: // upstream's gpushare releases devices of victims at once
			pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return s.evicted[api.TaskID(pod.UID)] })
		}
		if ledger := vacant(node, kind.name); ledger != nil {
			node.Others[kind.name] = ledger
			enter(ledger, pods)
		}
	}
}
