// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Quorum says whether the gang reaches its minimum with these members beside those bound or running.
//
// The minimum is read live: a PodGroup whose minMember was raised together with new pods must not have part of
// them bound because the watch lags behind. The PodGroup of a pod that stands alone is not read. While the API server does not
// answer, a gang that is short of the minimum it is known to have is told so: it would keep nodes for nothing.
func (c *Cache) Quorum(ctx context.Context, tx *binding.Transaction, passed []*binding.Member) error {
	if err := tx.StrictLoss(passed); err != nil {
		return err
	}
	for _, gang := range tx.Gangs() {
		if err := c.enoughOf(ctx, gang, tx, passed); err != nil {
			return err
		}
	}
	return nil
}

// enoughOf is nil if one of the transaction's gangs has what it asks for.
func (c *Cache) enoughOf(ctx context.Context, gang api.JobID, tx *binding.Transaction, passed []*binding.Member) error {
	live, err := c.liveSpec(ctx, gang)
	if apierrors.IsNotFound(err) {
		return deletedPodGroup(gang)
	}
	c.books.Lock()
	defer c.books.Unlock()
	job := c.books.Jobs.Get(gang)
	if job == nil || job.PodGroup == nil {
		return deletedPodGroup(gang)
	}
	if live == nil {
		live = &job.PodGroup.Spec
	}
	if short := tx.ShortOf(job, live, passed); short != nil || err == nil {
		return short
	}
	return fmt.Errorf("reading PodGroup %s: %w", gang, err)
}

// liveSpec reads the PodGroup's spec from the API server; nil when the cached one will do. Not being allowed to
// read it (a role made for upstream's scheduler) leaves the cached one.
func (c *Cache) liveSpec(ctx context.Context, gang api.JobID) (*scheduling.PodGroupSpec, error) {
	c.books.Lock()
	job := c.books.Jobs.Get(gang)
	alone := job != nil && standsAlone(job)
	c.books.Unlock()
	if alone {
		return nil, nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(string(gang))
	if err != nil {
		return nil, err
	}
	live, err := c.vc.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	internal, err := podgroup.Internal(live)
	if err != nil {
		return nil, err
	}
	return &internal.Spec, nil
}

// standsAlone is true if the job is a pod whose PodGroup was made for it and no other: Volcano's controller makes one for
// each pod that has no controller, and owns it by that pod. Such a gang has nothing to be split, and there may be so many
// of them that a read each would cost. That the cache knows one pod of a gang says nothing: the others may be on their way.
func standsAlone(job *api.JobInfo) bool {
	if len(job.Tasks) != 1 || job.PodGroup == nil || binding.LeastMembers(job.PodGroup) > 1 {
		return false
	}
	owner := metav1.GetControllerOf(job.PodGroup)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return false
	}
	_, own := job.Tasks[api.TaskID(owner.UID)]
	return own
}
