// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// claimUpdated calls claimChanged for a PersistentVolumeClaim if a field changed that decides whether the claim has a
// volume, and where. These fields are the spec and the annotations, which change when the claim is bound, the phase
// Lost, and the deletion timestamp. Other changes of the status are ignored.
func (s *storageChanges) claimUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.PersistentVolumeClaim)
	after, ok2 := newObj.(*v1.PersistentVolumeClaim)
	if !ok || !ok2 {
		return
	}
	lost := func(c *v1.PersistentVolumeClaim) bool { return c.Status.Phase == v1.ClaimLost }
	if before.UID != after.UID || lost(before) != lost(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations) {
		s.claimChanged(after)
	}
}

// claimChanged wakes the loop if a pod that uses the PersistentVolumeClaim waits to be placed, because the pod may wait
// for the claim to be created or bound. If all pods of the claim are being bound, no cycle is needed, although the
// claim changes several times in that time.
func (s *storageChanges) claimChanged(obj any) {
	if claim, ok := obj.(*v1.PersistentVolumeClaim); ok {
		s.changedFor(podsByClaim, claim)
	}
}

// changedFor wakes the loop if a pod that uses the claim waits to be placed. It also shortens the waits of gangs whose
// transaction failed and that have pods with the claim. index is the name of the index of pods by claims of this kind,
// which are PersistentVolumeClaims or ResourceClaims.
func (s *storageChanges) changedFor(index string, claim metav1.Object) {
	awaited := false
	for gang, pods := range s.podsWith(index, claim) {
		awaited = s.readClaims(gang, pods) || awaited
		if s.reports.HasFailed(gang) {
			s.backoff.RetrySoon(gang) // not at once: the gang's own pre-bind step may have caused the change, and could do so in a loop
		}
	}
	if awaited {
		s.wake(WakeNow)
	}
}

// podsWith returns the pods that use the claim, by gang. index is the name of the index of pods by claims of this kind.
func (s *storageChanges) podsWith(index string, claim metav1.Object) map[api.JobID][]*v1.Pod {
	name := claim.GetNamespace() + "/" + claim.GetName()
	pods, err := s.kube.Core().V1().Pods().Informer().GetIndexer().ByIndex(index, name)
	if err != nil {
		logger().Error(err, "Listing the pods of a claim failed", "claim", name)
	}
	found := map[api.JobID][]*v1.Pod{}
	for _, object := range pods {
		if pod, ok := object.(*v1.Pod); ok {
			found[gangOf(pod)] = append(found[gangOf(pod)], pod)
		}
	}
	return found
}

// readClaims rebuilds the tasks of those pods of the gang whose claims could not be read before. It reports whether any
// of the given pods waits to be placed.
func (s *storageChanges) readClaims(gang api.JobID, pods []*v1.Pod) (waiting bool) {
	for _, pod := range pods {
		s.books.Pods.ReadClaims(pod)
	}
	s.books.Lock()
	defer s.books.Unlock()
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return s.waits(gang, pod) })
}

// waits reports whether this scheduler still has to place the pod: the pod has no node and, according to the books, is
// not being bound. The caller must hold the books' mutex.
func (s *storageChanges) waits(gang api.JobID, pod *v1.Pod) bool {
	if !s.responsible.schedules(pod) || pod.Spec.NodeName != "" {
		return false
	}
	job := s.books.Jobs.Get(gang)
	if job == nil {
		return true
	}
	task := job.Tasks[api.TaskID(pod.UID)]
	return task == nil || task.Status == api.Pending
}
