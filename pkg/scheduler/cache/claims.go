// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// claimUpdated looks at what says where the claim's volume is, and whether it has one: its spec and annotations, which
// are written when it is bound, that it is lost, or being deleted. The rest of its status is told, not looked at.
func (ch *changes) claimUpdated(oldObj, newObj any) {
	before, ok := oldObj.(*v1.PersistentVolumeClaim)
	after, ok2 := newObj.(*v1.PersistentVolumeClaim)
	if !ok || !ok2 {
		return
	}
	lost := func(c *v1.PersistentVolumeClaim) bool { return c.Status.Phase == v1.ClaimLost }
	if before.UID != after.UID || lost(before) != lost(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations) {
		ch.claimChanged(after)
	}
}

// claimChanged wakes for volumes: a claim that was bound, or made, may be what a pod waits for. A pod that is
// being bound waits for no cycle, and while its volumes are bound each of its claims changes several times.
func (ch *changes) claimChanged(obj any) {
	if claim, ok := obj.(*v1.PersistentVolumeClaim); ok {
		ch.changedFor(podsByClaim, claim)
	}
}

// changedFor wakes for a claim, by the index of the pods that have it, if one of them waits.
func (ch *changes) changedFor(index string, claim metav1.Object) {
	awaited := false
	for gang, pods := range ch.cache.podsWith(index, claim) {
		awaited = ch.cache.readClaims(gang, pods) || awaited
		if _, failed := ch.cache.failure(gang); failed {
			ch.cache.backoff.RetrySoon(gang) // it may be a step's own doing
		}
	}
	if awaited {
		ch.cache.wake(WakeNow)
	}
}

// podsWith are the pods that have the claim by the index, by gang.
func (c *Cache) podsWith(index string, claim metav1.Object) map[api.JobID][]*v1.Pod {
	name := claim.GetNamespace() + "/" + claim.GetName()
	pods, err := c.sources.kube.Core().V1().Pods().Informer().GetIndexer().ByIndex(index, name)
	if err != nil {
		logger().Error(err, "Listing the pods of a claim", "claim", name)
	}
	found := map[api.JobID][]*v1.Pod{}
	for _, object := range pods {
		if pod, ok := object.(*v1.Pod); ok {
			found[gangOf(pod)] = append(found[gangOf(pod)], pod)
		}
	}
	return found
}

// claimsOf are the claims of a pod's volumes.
func claimsOf(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var claims []string
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			claims = append(claims, pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			claims = append(claims, pod.Namespace+"/"+ephemeral.VolumeClaimName(pod, volume))
		}
	}
	return claims, nil
}

// deviceClaimsOf are the claims of a pod's devices, as far as they are made.
func deviceClaimsOf(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var claims []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			claims = append(claims, pod.Namespace+"/"+*name)
		}
	}
	return claims, nil
}

// readClaims has the tasks of those of the gang's pods made again whose claims could not be read. It returns true if any of the pods waits to
// be placed.
func (c *Cache) readClaims(gang api.JobID, pods []*v1.Pod) (waiting bool) {
	for _, pod := range pods {
		c.books.Pods.ReadClaims(pod)
	}
	c.books.Lock()
	defer c.books.Unlock()
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return c.waits(gang, pod) })
}

// waits reports whether a pod of this scheduler has no node and is not being bound, as far as the books, whose mutex is held, know.
func (c *Cache) waits(gang api.JobID, pod *v1.Pod) bool {
	if !c.changes.ours(pod) || pod.Spec.NodeName != "" {
		return false
	}
	job := c.books.Jobs.Get(gang)
	if job == nil {
		return true
	}
	task := job.Tasks[api.TaskID(pod.UID)]
	return task == nil || task.Status == api.Pending
}
