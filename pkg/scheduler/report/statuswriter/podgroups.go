// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// desiredPodGroup is the status that the scheduler wants to write to a PodGroup, and the HyperNode for its annotation.
type desiredPodGroup struct {
	uid       types.UID
	status    scheduling.PodGroupStatus
	hyperNode string
	// base is the resource version of the PodGroup from which the status was decided.
	base string
	// written is the resource version of the PodGroup after the status was written; empty before the write.
	written string
}

// writtenStatus is a status that this scheduler wrote to the PodGroup with the given UID.
type writtenStatus struct {
	uid    types.UID
	status scheduling.PodGroupStatus
	// version is the resource version of the PodGroup after the write. at is the time of the write.
	version string
	at      time.Time
}

// PutPodGroup submits the PodGroup's status to be written. It does nothing if that status was submitted last or, if
// none was submitted, if the PodGroup has it. If only counters change, the write is delayed by the duration Settle. A
// change of the phase to Inqueue is also delayed while the gang is being bound, because the phase is about to change
// again.
func (w *Writer) PutPodGroup(pg *api.PodGroup, beingBound bool) {
	key := objectKey{podGroupKind, pg.Namespace, pg.Name}
	desired := &desiredPodGroup{uid: pg.UID, base: pg.ResourceVersion, status: *pg.Status.DeepCopy(), hyperNode: pg.Annotations[api.JobAllocatedHyperNode]}
	for i := range desired.status.Conditions {
		condition := &desired.status.Conditions[i]
		condition.Reason, condition.Message = brief.Part(condition.Reason), brief.Text(condition.Message)
	}
	before, ok := w.lastKnown(key, pg)
	if ok && before.hyperNode == desired.hyperNode && sameStatus(before.status, desired.status) {
		return
	}
	conditions.KeepTimes(&desired.status, before.status)
	var delay time.Duration
	samePhase := before.status.Phase == desired.status.Phase || beingBound && desired.status.Phase == scheduling.PodGroupInqueue
	if ok && samePhase && before.hyperNode == desired.hyperNode && sameStatus(
		scheduling.PodGroupStatus{Conditions: before.status.Conditions}, scheduling.PodGroupStatus{Conditions: desired.status.Conditions}) {
		delay = Settle
	}
	w.mu.Lock()
	w.podGroups[key] = desired
	w.mu.Unlock()
	w.queue.AddAfter(key, delay)
}

// LastKnown returns the PodGroup's desired status that was submitted last, or else the status that the informer shows.
// It returns false if the PodGroup has neither.
func (w *Writer) LastKnown(pg *api.PodGroup) (scheduling.PodGroupStatus, bool) {
	last, known := w.lastKnown(objectKey{podGroupKind, pg.Namespace, pg.Name}, pg)
	return last.status, known
}

// lastKnown does the same as LastKnown, and also returns the HyperNode in the PodGroup's annotation, as last submitted
// or as the informer shows it.
func (w *Writer) lastKnown(key objectKey, pg *api.PodGroup) (desiredPodGroup, bool) {
	w.mu.Lock()
	desired, ok := w.podGroups[key]
	if ok && desired.uid == pg.UID {
		defer w.mu.Unlock()
		return *desired, true
	}
	w.mu.Unlock()
	current, err := w.deps.PodGroups.PodGroups(key.namespace).Get(key.name)
	if err != nil {
		return desiredPodGroup{}, false
	}
	internal, err := podgroup.Internal(current)
	if err != nil {
		return desiredPodGroup{}, false
	}
	return desiredPodGroup{status: internal.Status, hyperNode: internal.Annotations[api.JobAllocatedHyperNode]}, true
}

// ForgetPodGroup drops the records about the statuses of a PodGroup that was deleted.
func (w *Writer) ForgetPodGroup(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.podGroups, objectKey{podGroupKind, namespace, name})
	delete(w.ours, objectKey{podGroupKind, namespace, name})
}

func (w *Writer) writePodGroup(ctx context.Context, key objectKey) error {
	w.mu.Lock()
	desired, ok := w.podGroups[key]
	w.mu.Unlock()
	if !ok || desired.written != "" {
		return nil
	}
	current, err := w.deps.PodGroups.PodGroups(key.namespace).Get(key.name)
	if err != nil || current.UID != desired.uid {
		drop(w, w.podGroups, key, desired)
		return nil
	}
	if w.unseen(key, current) {
		w.queue.AddAfter(key, unseenPoll)
		return nil
	}
	if foreign, err := w.writtenByOthers(key, current, desired); err != nil || foreign {
		if foreign {
			drop(w, w.podGroups, key, desired)
			w.deps.Outdated()
		}
		return err
	}
	updated, changed, err := applyDesired(current, desired)
	if err != nil {
		return err
	}
	if !changed {
		drop(w, w.podGroups, key, desired)
		return nil
	}
	wanted := desired.digest()
	if w.rejected.before(key, current, wanted) {
		drop(w, w.podGroups, key, desired)
		return nil
	}
	written, err := w.patchPodGroup(ctx, current, updated)
	switch {
	case apierrors.IsNotFound(err), w.givesUp(key, current, wanted, err):
		drop(w, w.podGroups, key, desired)
		return nil
	case err != nil:
		return fmt.Errorf("patching the status of PodGroup %s/%s: %w", key.namespace, key.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	desired.written = written.ResourceVersion
	if last, ok := w.podGroups[key]; ok && last.uid == desired.uid { // unless the PodGroup was deleted meanwhile
		w.ours[key] = writtenStatus{desired.uid, desired.status, desired.written, time.Now()}
	}
	return nil
}

// unseen reports whether the watch does not show the last write to the PodGroup yet. If so, a patch would be based on
// an older version and conflict. If the API server is slow with large objects, each conflict would delay it further.
func (w *Writer) unseen(key objectKey, current *v1beta1.PodGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.ours[key]
	return ok && last.uid == current.UID && time.Since(last.at) < unseenLimit && apiwrite.OlderVersion(current.ResourceVersion, last.version)
}

// patchPodGroup writes the difference between current and updated, unless the object has changed since current was
// read. It sends a patch, because an update would delete annotations that the watch drops from PodGroups. It does not
// compare the spec, which tenants may make large.
func (w *Writer) patchPodGroup(ctx context.Context, current, updated *v1beta1.PodGroup) (*v1beta1.PodGroup, error) {
	written := func(of *v1beta1.PodGroup) *v1beta1.PodGroup {
		return &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: of.Annotations}, Status: of.Status}
	}
	patch, err := apiwrite.MergePatch(written(current), written(updated), map[string]any{"uid": current.UID, "resourceVersion": current.ResourceVersion})
	if err != nil || patch == nil {
		return current, err
	}
	client := w.deps.Volcano.SchedulingV1beta1().PodGroups(current.Namespace)
	return client.Patch(ctx, current.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// writtenByOthers reports whether another client wrote the PodGroup's status after the desired status was decided. That
// is so if the object is newer than desired.base, and its status is not the status that this Writer wrote last. It
// returns false if this Writer has not written a status of the PodGroup.
func (w *Writer) writtenByOthers(key objectKey, current *v1beta1.PodGroup, desired *desiredPodGroup) (bool, error) {
	if !apiwrite.OlderVersion(desired.base, current.ResourceVersion) {
		return false, nil
	}
	internal, err := podgroup.Internal(current)
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.ours[key]
	return ok && last.uid == desired.uid && !sameStatus(internal.Status, last.status), nil
}

// applyDesired returns the PodGroup with the desired status, and reports whether this differs from the current
// PodGroup.
func applyDesired(current *v1beta1.PodGroup, desired *desiredPodGroup) (*v1beta1.PodGroup, bool, error) {
	internal, err := podgroup.Internal(current)
	if err != nil {
		return nil, false, err
	}
	sameHyperNode := internal.Annotations[api.JobAllocatedHyperNode] == desired.hyperNode
	if sameHyperNode && sameStatus(internal.Status, desired.status) {
		return nil, false, nil
	}
	status, err := podgroup.External(&scheduling.PodGroup{Status: desired.status})
	if err != nil {
		return nil, false, err
	}
	updated := *current
	updated.Status = status.Status
	if !sameHyperNode {
		updated.Annotations = maps.Clone(current.Annotations)
		metav1.SetMetaDataAnnotation(&updated.ObjectMeta, api.JobAllocatedHyperNode, desired.hyperNode)
	}
	return &updated, true, nil
}

// sameStatus reports whether two statuses are equal in the parts that users and controllers read.
func sameStatus(a, b scheduling.PodGroupStatus) bool {
	return a.Phase == b.Phase && a.Running == b.Running && a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		slices.EqualFunc(a.Conditions, b.Conditions, conditions.Same)
}

// timeless returns the status without the times and the transition IDs of its conditions.
func timeless(status scheduling.PodGroupStatus) scheduling.PodGroupStatus {
	timeless := make([]scheduling.PodGroupCondition, len(status.Conditions))
	for i, c := range status.Conditions {
		c.LastTransitionTime, c.TransitionID = metav1.Time{}, ""
		timeless[i] = c
	}
	status.Conditions = timeless
	return status
}

// digest returns a digest of the desired status. It identifies a status that was rejected.
func (desired *desiredPodGroup) digest() uint64 {
	return apiwrite.Digest(timeless(desired.status), desired.hyperNode)
}
