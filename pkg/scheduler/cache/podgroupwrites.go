// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

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
	if !apiwrite.OlderVersion(wish.base, current.ResourceVersion) {
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
	return apiwrite.Digest(timeless(wish.status), wish.hyperNode)
}
