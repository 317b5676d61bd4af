package cache

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// podWish is what a pod is to be told.
type podWish struct {
	uid       types.UID
	gang      api.JobID
	condition *v1.PodCondition
	// nominated is empty when the pod keeps the nomination it has.
	nominated string
}

// podGroupWish is the status decided for a PodGroup.
type podGroupWish struct {
	uid       types.UID
	status    scheduling.PodGroupStatus
	hyperNode string
	// base is the resource version of the PodGroup the status was decided on.
	base string
	// written is the resource version the wish was written at; empty until then.
	written string
}

// writtenStatus is a status that was written to the PodGroup of that UID.
type writtenStatus struct {
	uid    types.UID
	status scheduling.PodGroupStatus
}

// queueWish is what was decided for a queue's status and, for the root queue, its spec.
type queueWish struct {
	allocated v1.ResourceList
	root      *v1beta1.QueueSpec
}

func (w *statusWriter) wishPod(pod *v1.Pod, delay time.Duration) {
	key := statusKey{podKind, pod.Namespace, pod.Name}
	wish := &podWish{
		uid: pod.UID, gang: api.JobID(pod.Namespace + "/" + pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]), nominated: nomination(pod),
	}
	if _, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); condition != nil {
		wish.condition = condition.DeepCopy()
		wish.condition.Message = brief.Text(condition.Message)
	}
	w.mu.Lock()
	w.pods[key] = wish
	w.mu.Unlock()
	if wish.nominated != "" {
		delay = 0
	}
	w.queue.AddAfter(key, delay)
}

// nomination is the node a session nominated the pod to. The node the pod names itself is not one: the snapshot put
// it there.
func nomination(pod *v1.Pod) string {
	if pod.Status.NominatedNodeName == namedNode(pod) {
		return ""
	}
	return pod.Status.NominatedNodeName
}

func (w *statusWriter) writePod(ctx context.Context, key statusKey) error {
	w.mu.Lock()
	wish, ok := w.pods[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyPod(ctx, key, wish); err != nil {
		return fmt.Errorf("updating the status of pod %s/%s: %w", key.namespace, key.name, err)
	}
	drop(w, w.pods, key, wish)
	return nil
}

func (w *statusWriter) applyPod(ctx context.Context, key statusKey, wish *podWish) error {
	current, err := w.cache.SharedInformerFactory().Core().V1().Pods().Lister().Pods(key.namespace).Get(key.name)
	if err != nil || current.UID != wish.uid || current.Spec.NodeName != "" || !w.cache.isPending(wish) && !w.cache.delays.tells(wish.uid) {
		return nil // gone, bound, or being bound: nobody is interested in why it was not
	}
	status := current.Status.DeepCopy()
	changed := wish.condition != nil && podutil.UpdatePodCondition(status, wish.condition.DeepCopy())
	if wish.nominated != "" && wish.nominated != status.NominatedNodeName {
		status.NominatedNodeName, changed = wish.nominated, true
	}
	if !changed {
		return nil
	}
	wanted := wish.digest()
	if w.refused.before(key, current, wanted) {
		return nil
	}
	w.cache.SchedulerCache.Mutex.Lock()
	pod := ownPod(current)
	w.cache.SchedulerCache.Mutex.Unlock()
	pod.Status = *status
	_, err = w.cache.kube.CoreV1().Pods(key.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return w.unlessGivenUp(key, current, wanted, err)
}

// digest stands for what is wished.
func (wish *podWish) digest() uint64 {
	if wish.condition == nil {
		return digest(wish.nominated)
	}
	return digest(wish.nominated, wish.condition.Status, wish.condition.Reason, wish.condition.Message)
}

// isPending says whether the cache has the pod as a task that waits to be placed.
func (c *Cache) isPending(wish *podWish) bool {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	job, ok := c.Jobs[wish.gang]
	if !ok {
		return false
	}
	task, ok := job.Tasks[api.TaskID(wish.uid)]
	return ok && task.Status == api.Pending
}

// wishPodGroup leaves a wish for the PodGroup's status, unless that is what it has, or was wished for, already. What only
// changed its counters waits a moment; so does the phase of a gang that is being bound, which is about to change again.
func (w *statusWriter) wishPodGroup(pg *api.PodGroup, beingBound bool) {
	key := statusKey{podGroupKind, pg.Namespace, pg.Name}
	wish := &podGroupWish{uid: pg.UID, base: pg.ResourceVersion, status: *pg.Status.DeepCopy(), hyperNode: pg.Annotations[api.JobAllocatedHyperNode]}
	for i := range wish.status.Conditions {
		condition := &wish.status.Conditions[i]
		condition.Reason, condition.Message = brief.Part(condition.Reason), brief.Text(condition.Message)
	}
	before, ok := w.lastKnown(key, pg)
	if ok && before.hyperNode == wish.hyperNode && sameStatus(before.status, wish.status) {
		return
	}
	var delay time.Duration
	samePhase := before.status.Phase == wish.status.Phase || beingBound && wish.status.Phase == scheduling.PodGroupInqueue
	if ok && samePhase && before.hyperNode == wish.hyperNode && sameStatus(
		scheduling.PodGroupStatus{Conditions: before.status.Conditions}, scheduling.PodGroupStatus{Conditions: wish.status.Conditions}) {
		delay = settle
	}
	w.mu.Lock()
	w.podGroups[key] = wish
	w.mu.Unlock()
	w.queue.AddAfter(key, delay)
}

// withholdVerdict leaves the PodGroup's Unschedulable condition as it was last known.
func (w *statusWriter) withholdVerdict(pg *api.PodGroup) {
	before, _ := w.lastKnown(statusKey{podGroupKind, pg.Namespace, pg.Name}, pg)
	removeCondition(&pg.Status, isUnschedulable)
	for _, c := range before.status.Conditions {
		if isUnschedulable(c) {
			pg.Status.Conditions = append(pg.Status.Conditions, c)
		}
	}
}

func isUnschedulable(c scheduling.PodGroupCondition) bool {
	return c.Type == scheduling.PodGroupUnschedulableType
}

// lastKnown is the newest wish for the PodGroup, or else what the informer has of it.
func (w *statusWriter) lastKnown(key statusKey, pg *api.PodGroup) (podGroupWish, bool) {
	w.mu.Lock()
	wish, ok := w.podGroups[key]
	if ok && wish.uid == pg.UID {
		defer w.mu.Unlock()
		return *wish, true
	}
	w.mu.Unlock()
	current, err := w.cache.podGroups.PodGroups(key.namespace).Get(key.name)
	if err != nil {
		return podGroupWish{}, false
	}
	internal := &scheduling.PodGroup{}
	if err := scheme.Scheme.Convert(current, internal, nil); err != nil {
		return podGroupWish{}, false
	}
	return podGroupWish{status: internal.Status, hyperNode: internal.Annotations[api.JobAllocatedHyperNode]}, true
}

// forgetPodGroup drops the wish for a PodGroup that was deleted.
func (w *statusWriter) forgetPodGroup(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.podGroups, statusKey{podGroupKind, namespace, name})
	delete(w.ours, statusKey{podGroupKind, namespace, name})
}

func (w *statusWriter) writePodGroup(ctx context.Context, key statusKey) error {
	w.mu.Lock()
	wish, ok := w.podGroups[key]
	w.mu.Unlock()
	if !ok || wish.written != "" {
		return nil
	}
	current, err := w.cache.podGroups.PodGroups(key.namespace).Get(key.name)
	if err != nil || current.UID != wish.uid {
		drop(w, w.podGroups, key, wish)
		return nil
	}
	if foreign, err := w.writtenByOthers(key, current, wish); err != nil || foreign {
		if foreign {
			drop(w, w.podGroups, key, wish)
			w.cache.wake(Soon) // decided anew on what is there now
		}
		return err
	}
	updated, changed, err := applyWish(current, wish)
	if err != nil {
		return err
	}
	if !changed {
		drop(w, w.podGroups, key, wish)
		return nil
	}
	wanted := wish.digest()
	if w.refused.before(key, current, wanted) {
		drop(w, w.podGroups, key, wish)
		return nil
	}
	written, err := w.cache.vc.SchedulingV1beta1().PodGroups(key.namespace).Update(ctx, updated, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err), w.givesUp(key, current, wanted, err):
		drop(w, w.podGroups, key, wish)
		return nil
	case err != nil:
		return fmt.Errorf("updating the status of PodGroup %s/%s: %w", key.namespace, key.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wish.written = written.ResourceVersion
	if last, ok := w.podGroups[key]; ok && last.uid == wish.uid { // it was not deleted meanwhile
		w.ours[key] = writtenStatus{wish.uid, wish.status}
	}
	return nil
}

// writtenByOthers says whether somebody else wrote the PodGroup's status since the wish was decided: the object is newer
// than the one it was decided on, and its status is not what was written here last.
func (w *statusWriter) writtenByOthers(key statusKey, current *v1beta1.PodGroup, wish *podGroupWish) (bool, error) {
	if !olderVersion(wish.base, current.ResourceVersion) {
		return false, nil
	}
	internal := &scheduling.PodGroup{}
	if err := scheme.Scheme.Convert(current, internal, nil); err != nil {
		return false, fmt.Errorf("converting PodGroup %s/%s: %w", current.Namespace, current.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.ours[key]
	return ok && last.uid == wish.uid && !sameStatus(internal.Status, last.status), nil
}

// drop forgets a wish that was seen to, unless a newer one has taken its place.
func drop[W any](w *statusWriter, wishes map[statusKey]*W, key statusKey, wish *W) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wishes[key] == wish {
		delete(wishes, key)
	}
}

// applyWish returns the PodGroup with the wished status, and whether that changes anything.
func applyWish(current *v1beta1.PodGroup, wish *podGroupWish) (*v1beta1.PodGroup, bool, error) {
	internal := &scheduling.PodGroup{}
	if err := scheme.Scheme.Convert(current, internal, nil); err != nil {
		return nil, false, fmt.Errorf("converting PodGroup %s/%s: %w", current.Namespace, current.Name, err)
	}
	sameHyperNode := internal.Annotations[api.JobAllocatedHyperNode] == wish.hyperNode
	if sameHyperNode && sameStatus(internal.Status, wish.status) {
		return nil, false, nil
	}
	internal = internal.DeepCopy()
	internal.Status = wish.status
	if !sameHyperNode {
		internal.Annotations = maps.Clone(internal.Annotations)
		if internal.Annotations == nil {
			internal.Annotations = map[string]string{}
		}
		internal.Annotations[api.JobAllocatedHyperNode] = wish.hyperNode
	}
	updated := &v1beta1.PodGroup{}
	if err := scheme.Scheme.Convert(internal, updated, nil); err != nil {
		return nil, false, fmt.Errorf("converting PodGroup %s/%s: %w", current.Namespace, current.Name, err)
	}
	return updated, true, nil
}

// sameStatus compares what people and controllers read.
func sameStatus(a, b scheduling.PodGroupStatus) bool {
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}

// timeless is the status without the time and the session that a condition was set in.
func timeless(status scheduling.PodGroupStatus) scheduling.PodGroupStatus {
	conditions := make([]scheduling.PodGroupCondition, len(status.Conditions))
	for i, c := range status.Conditions {
		c.LastTransitionTime, c.TransitionID = metav1.Time{}, ""
		conditions[i] = c
	}
	status.Conditions = conditions
	return status
}

// digest stands for what is wished.
func (wish *podGroupWish) digest() uint64 {
	return digest(timeless(wish.status), wish.hyperNode)
}

func (w *statusWriter) wishQueue(name string, wish *queueWish) {
	key := statusKey{queueKind, "", name}
	w.mu.Lock()
	if before, ok := w.queues[key]; ok && wish.root == nil {
		wish.root = before.root
	}
	w.queues[key] = wish
	w.mu.Unlock()
	w.queue.AddAfter(key, settle)
}

func (w *statusWriter) writeQueue(ctx context.Context, key statusKey) error {
	w.mu.Lock()
	wish, ok := w.queues[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	if err := w.applyQueue(ctx, key, wish); err != nil {
		return fmt.Errorf("updating queue %s: %w", key.name, err)
	}
	drop(w, w.queues, key, wish)
	return nil
}

func (w *statusWriter) applyQueue(ctx context.Context, key statusKey, wish *queueWish) error {
	current, err := w.cache.queues.Get(key.name)
	if err != nil {
		return nil // deleted
	}
	wanted := digest(wish.allocated, wish.root)
	if w.refused.before(key, current, wanted) {
		return nil
	}
	client := w.cache.vc.SchedulingV1beta1().Queues()
	if root := wish.root; root != nil && !(equality.Semantic.DeepEqual(current.Spec.Deserved, root.Deserved) &&
		equality.Semantic.DeepEqual(current.Spec.Guarantee.Resource, root.Guarantee.Resource)) {
		updated := current.DeepCopy()
		updated.Spec.Deserved, updated.Spec.Guarantee.Resource = root.Deserved, root.Guarantee.Resource
		written, err := client.Update(ctx, updated, metav1.UpdateOptions{})
		if err != nil {
			return w.unlessGivenUp(key, current, wanted, err)
		}
		current = written
	}
	if equality.Semantic.DeepEqual(current.Status.Allocated, wish.allocated) {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status.Allocated = wish.allocated
	_, err = client.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return w.unlessGivenUp(key, current, wanted, err)
}

// olderVersion says whether resource version a is older than b. The API server's versions are decimal numbers that
// grow; a version that is not is taken as not older.
func olderVersion(a, b string) bool {
	na, errA := strconv.ParseUint(a, 10, 64)
	nb, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && na < nb
}
