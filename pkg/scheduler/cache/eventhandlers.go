// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// changes watches what happens in the cluster. It wakes the loop, ends the wait of gangs that a change may help,
// cancels members whose pod or node is gone, and knows which changes upstream's cache has not taken in yet.
//
// Upstream's cache listens on the same informers with handlers of its own, which run beside those here, and has queues behind
// some of them: it may take a change in later than it is seen here. So a change is awaited until upstream's cache has it or
// its object is gone, however long that takes.
//
//	seen here ──► fresh ── the loop waits no longer ──► late
//	                │                                     │
//	                └── upstream's cache has it, or it is gone ──► forgotten; a late one gets a cycle of its own
type changes struct {
	cache *Cache

	mu sync.Mutex
	// fresh and late are the versions that upstream's cache has not taken in. The next cycle waits for the fresh ones.
	fresh, late map[change]string
	// pods are the pods of each gang, whatever their state: a gang is worth a cycle once there are enough of them.
	pods map[api.JobID]map[types.UID]bool
	// watched are the informers that it listens to.
	watched map[cache.SharedIndexInformer]bool
}

// change names an object whose change the loop was woken for.
type change struct {
	kind            string
	namespace, name string
}

func newChanges(c *Cache, podGroups, queues, hyperNodes cache.SharedIndexInformer) *changes {
	ch := &changes{cache: c, fresh: map[change]string{}, late: map[change]string{}, pods: map[api.JobID]map[types.UID]bool{},
		watched: map[cache.SharedIndexInformer]bool{}}
	factory := c.SharedInformerFactory()
	ch.watch(factory.Core().V1().Pods().Informer(), ch.podAdded, ch.podUpdated, ch.podDeleted)
	ch.watch(factory.Core().V1().Nodes().Informer(), ch.nodeAdded, ch.nodeUpdated, ch.nodeDeleted)
	ch.watch(podGroups, ch.podGroupAdded, ch.podGroupUpdated, ch.podGroupDeleted)
	ch.watch(queues, ch.queueAdded, ch.queueUpdated, ch.queueDeleted)
	ch.watch(hyperNodes, ch.hyperNodeChanged, ch.hyperNodeUpdated, ch.hyperNodeChanged)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	ch.watch(claims, ch.claimChanged, ch.claimUpdated, ch.claimChanged)
	storage := factory.Storage().V1()
	ch.watchStorage(factory.Core().V1().PersistentVolumes().Informer(), storage.StorageClasses().Informer(), storage.CSINodes().Informer(), storage.VolumeAttachments().Informer())
	return ch
}

// watches is true if it listens to the informer.
func (ch *changes) watches(informer cache.SharedIndexInformer) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.watched[informer]
}

func (ch *changes) watch(informer cache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) {
	ch.mu.Lock()
	ch.watched[informer] = true
	ch.mu.Unlock()
	// An informer that was stopped takes no handler; then nothing changes any more.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: added, UpdateFunc: updated,
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			deleted(obj)
		},
	})
	if err != nil {
		logger().Error(err, "Watching for changes")
	}
}

// await notes that a cycle must see this change, and asks for the cycle.
func (ch *changes) await(kind string, object metav1.Object) {
	what := change{kind, object.GetNamespace(), object.GetName()}
	ch.mu.Lock()
	ch.fresh[what] = object.GetResourceVersion()
	delete(ch.late, what)
	ch.mu.Unlock()
	ch.cache.wake(WakeNow)
}

// gone notes that no cycle needs to see the object any more.
func (ch *changes) gone(kind string, object metav1.Object) {
	what := change{kind, object.GetNamespace(), object.GetName()}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.fresh, what)
	delete(ch.late, what)
}

func (ch *changes) ours(pod *v1.Pod) bool {
	return slices.Contains(ch.cache.schedulerNames, pod.Spec.SchedulerName)
}

func gangOf(pod *v1.Pod) api.JobID {
	return api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
}

// podAdded asks for a cycle once the pod makes its gang large enough to be placed. Before that a cycle could only
// find what is missing, which the periodic one is early enough for.
func (ch *changes) podAdded(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok || !ch.ours(pod) {
		return
	}
	gang := gangOf(pod)
	ch.countPod(gang, pod.UID, true)
	if pod.Spec.NodeName != "" {
		return
	}
	ch.cache.backoff.RetryNow(gang)
	if pg, err := ch.cache.podGroups.PodGroups(pod.Namespace).Get(pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]); err != nil || !ch.enough(pg) {
		ch.cache.wake(WakeDelayed)
		return
	}
	ch.await("pod", pod)
}

func (ch *changes) countPod(gang api.JobID, uid types.UID, there bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if there {
		if ch.pods[gang] == nil {
			ch.pods[gang] = map[types.UID]bool{}
		}
		ch.pods[gang][uid] = true
		return
	}
	delete(ch.pods[gang], uid)
	if len(ch.pods[gang]) == 0 {
		delete(ch.pods, gang)
	}
}

// enough is true if the gang has the pods its minimum asks for.
func (ch *changes) enough(pg *v1beta1.PodGroup) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return int32(len(ch.pods[api.JobID(pg.Namespace+"/"+pg.Name)])) >= pg.Spec.MinMember
}

func (ch *changes) podUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.Pod)
	after, ok2 := newObj.(*v1.Pod)
	if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
		return
	}
	if before.UID != after.UID { // the deletion of the one and the creation of the other fell into a gap of the watch
		ch.podDeleted(before)
		ch.podAdded(after)
		return
	}
	if gang := gangOf(after); ch.ours(after) && gang != gangOf(before) {
		ch.countPod(gangOf(before), after.UID, false)
		ch.countPod(gang, after.UID, true)
	}
	switch {
	case after.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		if after.Spec.NodeName == "" {
			ch.cache.cancelPod(after)
		}
		ch.cache.wake(WakeNow)
	case finished(after) != finished(before):
		ch.cache.wake(WakeNow)
	case after.Spec.NodeName != before.Spec.NodeName || after.Status.Phase != before.Status.Phase:
		ch.cache.wake(WakeDelayed)
	case after.Spec.NodeName == "" && ch.ours(after) && !(equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		equality.Semantic.DeepEqual(before.Annotations, after.Annotations) && equality.Semantic.DeepEqual(before.Spec, after.Spec) &&
		equality.Semantic.DeepEqual(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses)):
		ch.cache.backoff.RetrySoon(gangOf(after)) // it may be a step's own doing
		ch.cache.wake(WakeNow)
	}
}

func (ch *changes) podDeleted(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	ch.countPod(gangOf(pod), pod.UID, false)
	ch.cache.evictor.forget(pod.UID)
	ch.cache.forgetClaims(pod.UID)
	ch.cache.cancelPod(pod)
	if pod.Spec.NodeName != "" || ch.ours(pod) {
		ch.cache.wake(WakeNow)
	}
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func (ch *changes) nodeAdded(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		ch.cache.hyperNodes.nodeChanged(node.Name)
		ch.await("node", node)
	}
}

// nodeUpdated looks at what placement depends on, which decides what becomes of gangs that failed on the node:
//
//   - Spec, labels, allocatable resources and readiness want a cycle now. They end the wait of these gangs soon, and not at
//     once, because a step of theirs may have written them.
//   - Annotations, in which agents register devices and write their heartbeats, end these waits as soon, and want no cycle:
//     pending tasks are looked at once a period anyway.
//   - All else, such as the kubelet's heartbeat, is no change.
//
// A node in the place of another of its name is another node.
func (ch *changes) nodeUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.Node)
	after, ok2 := newObj.(*v1.Node)
	if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
		return
	}
	same := equality.Semantic.DeepEqual
	if !same(before.Labels, after.Labels) {
		ch.cache.hyperNodes.nodeChanged(after.Name)
	}
	switch {
	case before.UID != after.UID:
		ch.nodeDeleted(before)
		ch.nodeAdded(after)
	case !same(before.Spec, after.Spec) || !same(before.Labels, after.Labels) ||
		!same(before.Status.Allocatable, after.Status.Allocatable) || ready(before) != ready(after):
		ch.cache.backoff.RetryNodeSoon(after.Name)
		ch.await("node", after)
	case !same(before.Annotations, after.Annotations):
		ch.cache.backoff.RetryNodeSoon(after.Name)
	}
}

func ready(node *v1.Node) v1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status
		}
	}
	return v1.ConditionUnknown
}

func (ch *changes) nodeDeleted(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		ch.cache.hyperNodes.nodeChanged(node.Name)
		ch.gone("node", node)
		ch.cache.backoff.RetryNode(node.Name) // those that waited for it; who loses members now waits its turn
		ch.cache.cancelNode(node.Name)
		ch.cache.wake(WakeNow)
	}
}

// podGroupAdded asks for a cycle when the gang's pods are there, or when a controller waits for the PodGroup to be let
// in before it makes them.
func (ch *changes) podGroupAdded(obj any) {
	pg, ok := obj.(*v1beta1.PodGroup)
	if !ok {
		return
	}
	if ch.enough(pg) || metav1.GetControllerOf(pg) != nil {
		ch.await("podgroup", pg)
		return
	}
	ch.cache.wake(WakeDelayed)
}

// podGroupUpdated looks at what users write. A status is this scheduler's own word.
func (ch *changes) podGroupUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1beta1.PodGroup)
	after, ok2 := newObj.(*v1beta1.PodGroup)
	if ok && ok2 && before.UID != after.UID {
		ch.podGroupDeleted(before)
		ch.podGroupAdded(after)
		return
	}
	if !ok || !ok2 {
		return
	}
	gang := api.JobID(after.Namespace + "/" + after.Name)
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		ch.cache.backoff.RetryNow(gang)
	case !equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations):
		ch.cache.backoff.RetrySoon(gang) // it may be a step's own doing
	default:
		return
	}
	ch.await("podgroup", after)
}

func (ch *changes) podGroupDeleted(obj any) {
	if pg, ok := obj.(*v1beta1.PodGroup); ok {
		gang := api.JobID(pg.Namespace + "/" + pg.Name)
		ch.gone("podgroup", pg)
		ch.cache.status.ForgetPodGroup(pg.Namespace, pg.Name)
		ch.cache.backoff.Forget(gang)
		ch.cache.forgetGang(gang)
		ch.cache.wake(WakeDelayed)
	}
}

func (ch *changes) queueAdded(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.await("queue", queue)
	}
}

func (ch *changes) queueUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1beta1.Queue)
	after, ok2 := newObj.(*v1beta1.Queue)
	if ok && ok2 && !(equality.Semantic.DeepEqual(before.Spec, after.Spec) && before.Status.State == after.Status.State &&
		equality.Semantic.DeepEqual(before.Annotations, after.Annotations)) {
		ch.await("queue", after)
	}
}

func (ch *changes) queueDeleted(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.gone("queue", queue)
		ch.cache.wake(WakeDelayed)
	}
}
