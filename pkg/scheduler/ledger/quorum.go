// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

// quorum is the engine's Gatekeeper: it decides whether the gangs of a transaction reach their minima.
type quorum struct {
	books *books.Books
	vc    vcclient.Interface
}

var _ binding.Gatekeeper = (*quorum)(nil)

// Quorum returns nil if each gang of the transaction reaches its minimum with the members that passed their pre-bind
// steps, and with its bound and running members if these count. It returns an error if not all members of a strict gang
// passed.
//
// The minimum is read from the API server, because the watch may be late: if a user raised minMember of a PodGroup and
// added pods, the old minimum must not let some of the pods be bound. The PodGroup of a single pod without a controller
// is not read (standsAlone). While the API server does not answer, the minimum in the books is used to refuse a gang,
// because a gang below it would hold nodes uselessly.
func (q *quorum) Quorum(ctx context.Context, tx *binding.Transaction, passed []*binding.Member) error {
	if err := tx.StrictLoss(passed); err != nil {
		return err
	}
	for _, gang := range tx.Gangs() {
		if err := q.enoughOf(ctx, gang, tx, passed); err != nil {
			return err
		}
	}
	return nil
}

// enoughOf returns nil if the gang reaches its minimum with the passed members, and with the bound and running members
// that count for it by the gang's match policy. Otherwise the error says what is missing.
func (q *quorum) enoughOf(ctx context.Context, gang api.JobID, tx *binding.Transaction, passed []*binding.Member) error {
	live, err := q.liveSpec(ctx, gang)
	if apierrors.IsNotFound(err) {
		return deletedPodGroup(gang)
	}
	q.books.Lock()
	defer q.books.Unlock()
	job := q.books.Jobs.Get(gang)
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

// liveSpec reads the PodGroup's spec from the API server. It returns nil if the spec in the books suffices. The spec in
// the books is also used if the scheduler has no permission to read PodGroups, as with a role written for upstream's
// scheduler.
func (q *quorum) liveSpec(ctx context.Context, gang api.JobID) (*scheduling.PodGroupSpec, error) {
	q.books.Lock()
	job := q.books.Jobs.Get(gang)
	alone := job != nil && standsAlone(job)
	q.books.Unlock()
	if alone {
		return nil, nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(string(gang))
	if err != nil {
		return nil, err
	}
	live, err := q.vc.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
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

// standsAlone reports whether the job is a single pod whose PodGroup was made only for it. Volcano's controller makes
// such a PodGroup, owned by the pod, for each pod without a controller. Such a gang cannot be split, and there may be
// too many such gangs to read each PodGroup. It does not suffice that the books have one pod of a gang, because more
// pods may follow.
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
