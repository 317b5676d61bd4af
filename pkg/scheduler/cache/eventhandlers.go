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
	shardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// changes has the books see what happens in the cluster, and then draws the consequences: it wakes the loop, ends the wait of gangs that a change may help, and
// cancels members whose pod or node is gone. There is one handler for each informer, so what the loop is woken for is in the books.
type changes struct {
	cache *Cache

	mu sync.Mutex
	// pods are the pods of each gang, whatever their state: a gang is worth a cycle once there are enough of them.
	pods map[api.JobID]map[types.UID]bool
	// watched are the informers that it listens to.
	watched map[cache.SharedIndexInformer]bool
}

func newChanges(c *Cache, podGroups, queues, hyperNodes cache.SharedIndexInformer) *changes {
	ch := &changes{cache: c, pods: map[api.JobID]map[types.UID]bool{}, watched: map[cache.SharedIndexInformer]bool{}}
	factory := c.sources.kube
	ch.feed(factory.Core().V1().Nodes().Informer(), ch.nodeAdded, ch.nodeUpdated, ch.nodeDeleted)
	ch.feed(podGroups, ch.podGroupAdded, ch.podGroupUpdated, ch.podGroupDeleted)
	ch.feed(queues, ch.queueAdded, ch.queueUpdated, ch.queueDeleted)
	ch.feed(hyperNodes, ch.hyperNodeChanged, ch.hyperNodeUpdated, ch.hyperNodeChanged)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	ch.feed(claims, ch.claimChanged, ch.claimUpdated, ch.claimChanged)
	ch.watchTables()
	if sharding() {
		shards := c.sources.volcano.Shard().V1alpha1().NodeShards().Informer()
		watchTable(ch, shards, func(o any) { c.shards.show(o.(*shardv1alpha1.NodeShard)) }, func(o any) { c.shards.hide(o.(*shardv1alpha1.NodeShard)) })
	}
	storage := factory.Storage().V1()
	ch.feed(storage.CSINodes().Informer(), ch.storageAdded, ch.storageUpdated, ch.storageDeleted)
	ch.watchStorage(factory.Core().V1().PersistentVolumes().Informer(), storage.StorageClasses().Informer(), storage.VolumeAttachments().Informer())
	return ch
}

// feedPods adds the handler of pods. It is called once the informers are synced that say which volumes pods attach.
func (ch *changes) feedPods() {
	ch.feed(ch.cache.sources.kube.Core().V1().Pods().Informer(), ch.podAdded, ch.podUpdated, ch.podDeleted)
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
	ch.handle(informer, added, updated, deleted)
}

// feed watches what the first session needs.
func (ch *changes) feed(informer cache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) {
	ch.mu.Lock()
	ch.watched[informer] = true
	ch.mu.Unlock()
	if handler := ch.handle(informer, added, updated, deleted); handler != nil {
		ch.cache.sources.handed = append(ch.cache.sources.handed, handler.HasSynced)
	}
}

// handle adds a handler to the informer.
func (ch *changes) handle(informer cache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) cache.ResourceEventHandlerRegistration {
	// An informer that was stopped takes no handler; then nothing changes any more.
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
	return handler
}

func (ch *changes) ours(pod *v1.Pod) bool {
	return slices.Contains(ch.cache.responsible.schedulerNames, pod.Spec.SchedulerName)
}

func gangOf(pod *v1.Pod) api.JobID {
	return api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
}

// podAdded asks for a cycle once the pod makes its gang large enough to be placed. Before that a cycle could only
// find what is missing, which the periodic one is early enough for.
func (ch *changes) podAdded(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	ch.cache.books.Pods.Show(pod)
	if !ch.ours(pod) {
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
	ch.cache.wake(WakeNow)
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
	ch.cache.books.Pods.Show(after)
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
	ch.cache.books.Pods.Hide(pod)
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
		ch.cache.books.Nodes.Show(node)
		ch.cache.hyperNodes.nodeChanged(node.Name)
		ch.cache.wake(WakeNow)
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
	if before.UID == after.UID {
		ch.cache.books.Nodes.Show(after)
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
		ch.cache.wake(WakeNow)
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
		ch.cache.dropNUMA(node.Name)
		ch.cache.books.Nodes.Hide(node.Name)
		ch.cache.hyperNodes.nodeChanged(node.Name)
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
	ch.showGroup(pg)
	if ch.enough(pg) || metav1.GetControllerOf(pg) != nil {
		ch.cache.wake(WakeNow)
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
	if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
		return
	}
	ch.showGroup(after)
	gang := api.JobID(after.Namespace + "/" + after.Name)
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		ch.cache.backoff.RetryNow(gang)
	case !equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations):
		ch.cache.backoff.RetrySoon(gang) // it may be a step's own doing
	default:
		return
	}
	ch.cache.wake(WakeNow)
}

func (ch *changes) podGroupDeleted(obj any) {
	if pg, ok := obj.(*v1beta1.PodGroup); ok {
		gang := api.JobID(pg.Namespace + "/" + pg.Name)
		ch.cache.books.Jobs.HideGroup(gang)
		ch.cache.status.ForgetPodGroup(pg.Namespace, pg.Name)
		ch.cache.backoff.Forget(gang)
		ch.cache.forgetGang(gang)
		ch.cache.wake(WakeDelayed)
	}
}

func (ch *changes) queueAdded(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.showQueue(queue)
		ch.cache.wake(WakeNow)
	}
}

func (ch *changes) queueUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1beta1.Queue)
	after, ok2 := newObj.(*v1beta1.Queue)
	if ok2 {
		ch.showQueue(after)
	}
	if ok && ok2 && !(equality.Semantic.DeepEqual(before.Spec, after.Spec) && before.Status.State == after.Status.State &&
		equality.Semantic.DeepEqual(before.Annotations, after.Annotations)) {
		ch.cache.wake(WakeNow)
	}
}

func (ch *changes) queueDeleted(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.cache.books.Lock()
		ch.cache.books.Tables.HideQueue(queue.Name)
		ch.cache.books.Unlock()
		ch.cache.wake(WakeDelayed)
	}
}
