// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/storage/ephemeral"
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

// claimChanged wakes for volumes: a claim that was bound, or made, may be what a pod waits for.
func (ch *changes) claimChanged(obj any) {
	if claim, ok := obj.(*v1.PersistentVolumeClaim); ok {
		for _, gang := range ch.cache.failedGangs() {
			if strings.HasPrefix(string(gang), claim.Namespace+"/") && ch.cache.usesClaim(gang, claim) {
				ch.cache.backoff.RetrySoon(gang) // it may be a step's own doing
			}
		}
	}
	ch.cache.wake(Now)
}

// usesClaim says whether a pod of the gang has the claim among its volumes.
func (c *Cache) usesClaim(gang api.JobID, claim *v1.PersistentVolumeClaim) bool {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	job, ok := c.Jobs[gang]
	if !ok {
		return false
	}
	for _, task := range job.Tasks {
		for _, volume := range task.Pod.Spec.Volumes {
			named := volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim.Name
			made := volume.Ephemeral != nil && ephemeral.VolumeClaimName(task.Pod, &volume) == claim.Name
			if named || made {
				return true
			}
		}
	}
	return false
}
