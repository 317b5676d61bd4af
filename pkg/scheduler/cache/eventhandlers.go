// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	shardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ledger"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// changes writes changes of the cluster to the books, and then acts on them. It wakes the loop, ends the waits of gangs
// that a change may help, and cancels members whose pod or node was deleted, or whose pod was resized to more. Each
// informer has only this handler, so a change is in the books before the loop wakes because of it.
type changes struct {
	books       *books.Books
	sources     *sources
	vc          vcclient.Interface
	podGroups   vclisters.PodGroupLister
	handlers    *handlers
	ledger      *ledger.Ledger
	backoff     *binding.Backoff
	reports     *report.Reporter
	hyperNodes  *hyperNodes
	shards      *shards
	responsible *responsible
	wake        func(Urgency)
	// pods are the pods of each gang, in any state. podAdded and podGroupAdded use them to decide whether a gang has
	// enough pods.
	pods    *gangPods
	storage *storageChanges
}

// watch adds the handlers of all informers except the pod informer, whose handler feedPods adds.
func (ch *changes) watch() {
	core, volcano := ch.sources.kube.Core().V1(), ch.sources.volcano
	scheduling := volcano.Scheduling().V1beta1()
	ch.handlers.feed(core.Nodes().Informer(), ch.nodeAdded, ch.nodeUpdated, ch.nodeDeleted)
	ch.handlers.feed(scheduling.PodGroups().Informer(), ch.podGroupAdded, ch.podGroupUpdated, ch.podGroupDeleted)
	ch.handlers.feed(scheduling.Queues().Informer(), ch.queueAdded, ch.queueUpdated, ch.queueDeleted)
	ch.handlers.feed(volcano.Topology().V1alpha1().HyperNodes().Informer(), ch.hyperNodeChanged, ch.hyperNodeUpdated, ch.hyperNodeChanged)
	ch.watchTables()
	if sharding() {
		shards := volcano.Shard().V1alpha1().NodeShards().Informer()
		ch.handlers.table(shards, func(o any) { ch.shards.show(o.(*shardv1alpha1.NodeShard)) }, func(o any) { ch.shards.hide(o.(*shardv1alpha1.NodeShard)) })
	}
	ch.storage.watchAll()
}

// feedPods adds the handler of pods. It is called after the informers have synced that decide which volumes pods
// attach.
func (ch *changes) feedPods() {
	ch.handlers.feed(ch.sources.kube.Core().V1().Pods().Informer(), ch.podAdded, ch.podUpdated, ch.podDeleted)
}

func gangOf(pod *v1.Pod) api.JobID {
	return api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
}

// podAdded requests a cycle at once if the gang now has enough pods to be placed. Otherwise a cycle could only report
// missing pods, so a delayed cycle suffices.
func (ch *changes) podAdded(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	ch.books.Pods.Show(pod)
	if !ch.responsible.schedules(pod) {
		return
	}
	gang := gangOf(pod)
	ch.pods.add(gang, pod.UID)
	if pod.Spec.NodeName != "" {
		return
	}
	ch.backoff.RetryNow(gang)
	if pg, err := ch.podGroups.PodGroups(pod.Namespace).Get(pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]); err != nil || !ch.pods.enough(pg) {
		ch.wake(WakeDelayed)
		return
	}
	ch.wake(WakeNow)
}

func (ch *changes) podUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.Pod)
	after, ok2 := newObj.(*v1.Pod)
	if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
		return
	}
	if before.UID != after.UID { // the watch missed the deletion of one pod and the creation of its replacement
		ch.podDeleted(before)
		ch.podAdded(after)
		return
	}
	ch.books.Pods.Show(after)
	ch.ledger.CancelGrown(after)
	if gang := gangOf(after); ch.responsible.schedules(after) && gang != gangOf(before) {
		ch.pods.remove(gangOf(before), after.UID)
		ch.pods.add(gang, after.UID)
	}
	switch {
	case after.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		if after.Spec.NodeName == "" {
			ch.ledger.CancelPod(gangOf(after), after)
		}
		ch.wake(WakeNow)
	case finished(after) != finished(before):
		ch.wake(WakeNow)
	case after.Spec.NodeName != before.Spec.NodeName || after.Status.Phase != before.Status.Phase:
		ch.wake(WakeDelayed)
	case after.Spec.NodeName == "" && ch.responsible.schedules(after) && !(equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		equality.Semantic.DeepEqual(before.Annotations, after.Annotations) && equality.Semantic.DeepEqual(before.Spec, after.Spec) &&
		equality.Semantic.DeepEqual(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses)):
		ch.backoff.RetrySoon(gangOf(after)) // not at once: the gang's own pre-bind step may have caused the change
		ch.wake(WakeNow)
	case after.Spec.NodeName != "" && !api.GetPodResourceRequest(before).LessEqual(api.GetPodResourceRequest(after), api.Zero):
		ch.wake(WakeNow) // the pod was resized to less, which leaves room on its node
	}
}

func (ch *changes) podDeleted(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	ch.pods.remove(gangOf(pod), pod.UID)
	ch.books.Pods.Hide(pod)
	ch.ledger.CancelPod(gangOf(pod), pod)
	if pod.Spec.NodeName != "" || ch.responsible.schedules(pod) {
		ch.wake(WakeNow)
	}
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func (ch *changes) nodeAdded(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		ch.books.Nodes.Show(node)
		ch.hyperNodes.nodeChanged(node.Name)
		ch.wake(WakeNow)
	}
}

// nodeUpdated compares the fields that placement depends on, and shortens the wait of gangs that failed on the node:
//
//   - A change of spec, labels, allocatable resources or readiness requests a cycle at once. The gangs are retried
//     soon, and not at once, because one of their pre-bind steps may have caused the change.
//   - A change of annotations, in which agents register devices and write their heartbeats, retries the gangs just as
//     soon, but requests no cycle: a periodic cycle considers pending tasks anyway.
//   - All other changes, such as the kubelet's heartbeat, are ignored.
//
// A node that replaces another one of the same name counts as a new node.
func (ch *changes) nodeUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.Node)
	after, ok2 := newObj.(*v1.Node)
	if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
		return
	}
	if before.UID == after.UID {
		ch.books.Nodes.Show(after)
	}
	same := equality.Semantic.DeepEqual
	if !same(before.Labels, after.Labels) {
		ch.hyperNodes.nodeChanged(after.Name)
	}
	switch {
	case before.UID != after.UID:
		ch.nodeDeleted(before)
		ch.nodeAdded(after)
	case !same(before.Spec, after.Spec) || !same(before.Labels, after.Labels) ||
		!same(before.Status.Allocatable, after.Status.Allocatable) || ready(before) != ready(after):
		ch.backoff.RetryNodeSoon(after.Name)
		ch.wake(WakeNow)
	case !same(before.Annotations, after.Annotations):
		ch.backoff.RetryNodeSoon(after.Name)
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
		ch.dropNUMA(node.Name)
		ch.books.Nodes.Hide(node.Name)
		ch.hyperNodes.nodeChanged(node.Name)
		ch.backoff.RetryNode(node.Name) // before CancelNode: gangs that lose members there start a new wait, which must not end at once
		ch.ledger.CancelNode(node.Name)
		ch.wake(WakeNow)
	}
}

// podGroupAdded requests a cycle at once in two cases: the gang's pods exist, or a controller owns the PodGroup. Such a
// controller may create the pods only after the PodGroup is admitted.
func (ch *changes) podGroupAdded(obj any) {
	pg, ok := obj.(*v1beta1.PodGroup)
	if !ok {
		return
	}
	ch.showGroup(pg)
	if ch.pods.enough(pg) || metav1.GetControllerOf(pg) != nil {
		ch.wake(WakeNow)
		return
	}
	ch.wake(WakeDelayed)
}

// podGroupUpdated wakes the loop for changes of the fields that users write. It ignores the status, which this
// scheduler itself writes. A PodGroup whose new owner selects another scheduler counts as deleted.
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
	if ch.responsible.forOwned(before) && !ch.responsible.forOwned(after) { // another scheduler handles the gang from now on
		ch.podGroupDeleted(before)
		return
	}
	ch.showGroup(after)
	gang := api.JobID(after.Namespace + "/" + after.Name)
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		ch.backoff.RetryNow(gang)
	case !equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations):
		ch.backoff.RetrySoon(gang) // not at once: the gang's own pre-bind step may have caused the change
	default:
		return
	}
	ch.wake(WakeNow)
}

func (ch *changes) podGroupDeleted(obj any) {
	if pg, ok := obj.(*v1beta1.PodGroup); ok {
		gang := api.JobID(pg.Namespace + "/" + pg.Name)
		ch.books.Jobs.HideGroup(gang)
		ch.backoff.Forget(gang)
		ch.ledger.CancelGang(gang)
		ch.reports.Forget(pg.Namespace, pg.Name)
		ch.wake(WakeDelayed)
	}
}

func (ch *changes) queueAdded(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.showQueue(queue)
		ch.wake(WakeNow)
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
		ch.wake(WakeNow)
	}
}

func (ch *changes) queueDeleted(obj any) {
	if queue, ok := obj.(*v1beta1.Queue); ok {
		ch.books.Lock()
		ch.books.Tables.HideQueue(queue.Name)
		ch.books.Unlock()
		ch.wake(WakeDelayed)
	}
}
