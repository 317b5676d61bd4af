// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// recover withdraws the writes of a former leader for pods that the leader did not bind. It removes the reservations of
// claims for this scheduler's pods without a node. Then it removes allocations that no pod uses, if SchedulerAnnotation
// names this scheduler. An error means that claims cannot be read. Writes that cannot be withdrawn yet are retried in
// the background, and the pods of their claims wait.
func (d *devices) recover(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), d.synced...) {
		return fmt.Errorf("reading all claims and devices: %w", context.Cause(ctx))
	}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return d.kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, options)
	}
	return d.unrecovered.Recover(func(pass *framework.RecoveryPass) error {
		return framework.VisitAll(ctx, "claims", list, func(claim *resourceapi.ResourceClaim) {
			if !mayBeLeft(claim) {
				return
			}
			pass.Visit(ctx, framework.Leftover{Claim: nameOf(claim)}, func(ctx context.Context, pending sets.Set[string]) error {
				return recovery{d}.withdraw(ctx, claim, pending)
			})
		})
	})
}

// recovered returns an error if a former leader's writes for the claim are not withdrawn yet.
func (d *devices) recovered(claim *resourceapi.ResourceClaim) error {
	if err := d.unrecovered.Check(nameOf(claim)); err != nil {
		return fmt.Errorf("claim %s: %w", brief.Value(claim.Name), err)
	}
	return nil
}

func nameOf(claim *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// mayBeLeft reports whether a former leader may have written the claim for a pod that it did not bind.
func mayBeLeft(claim *resourceapi.ResourceClaim) bool {
	if len(claim.Status.ReservedFor) == 0 {
		return isUnused(claim)
	}
	return framework.IsOwnMark(claim.Annotations[SchedulerAnnotation]) || !framework.SharesName()
}

// isUnused reports whether no pod has reserved the claim, and this scheduler has allocated it (SchedulerAnnotation). It also
// returns true for a claim without an allocation that still has the finalizer of an allocated claim. A withdrawal that ended early
// may have left the finalizer.
func isUnused(claim *resourceapi.ResourceClaim) bool {
	return framework.IsOwnMark(claim.Annotations[SchedulerAnnotation]) && len(claim.Status.ReservedFor) == 0 &&
		(claim.Status.Allocation != nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer))
}

// recovery implements framework.Withdrawer. PodKeys returns a key, the pod's UID, only for this scheduler's pods that have no node
// and have not ended.
type recovery struct{ devices *devices }

// withoutNode selects pods without a node. The API server might take too long to list all pods of a namespace.
var withoutNode = fields.OneTermEqualSelector("spec.nodeName", "")

// ListPods implements framework.Withdrawer.
func (r recovery) ListPods(ctx context.Context, namespace string, options metav1.ListOptions) (*v1.PodList, error) {
	options.FieldSelector = withoutNode.String()
	return r.devices.kube.CoreV1().Pods(namespace).List(ctx, options)
}

// PodKeys implements framework.Withdrawer.
func (r recovery) PodKeys(pod *v1.Pod) []string {
	if pod.Spec.NodeName == "" && !podutil.IsPodTerminal(pod) && slices.Contains(framework.OwnNames(), pod.Spec.SchedulerName) {
		return []string{string(pod.UID)}
	}
	return nil
}

// WithdrawAgain implements framework.Withdrawer.
func (r recovery) WithdrawAgain(ctx context.Context, of framework.Leftover, pending sets.Set[string]) error {
	read, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claim, err := r.devices.kube.ResourceV1().ResourceClaims(of.Claim.Namespace).Get(read, of.Claim.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !mayBeLeft(claim):
		return nil
	}
	return r.withdraw(ctx, claim, pending)
}

// withdraw withdraws a former leader's writes for the claim.
func (r recovery) withdraw(ctx context.Context, claim *resourceapi.ResourceClaim, pending sets.Set[string]) error {
	leaves := func(user resourceapi.ResourceClaimConsumerReference) bool {
		return user.APIGroup == "" && user.Resource == "pods" && pending.Has(string(user.UID))
	}
	if !isUnused(claim) && !slices.ContainsFunc(claim.Status.ReservedFor, leaves) {
		return nil
	}
	mark := claim.Annotations[SchedulerAnnotation]
	err := r.devices.writeWithdrawal(ctx, withdrawal{
		claim: claim, scheduler: mark, leaves: leaves,
		frees: func(live *resourceapi.ResourceClaim) bool {
			return framework.IsOwnMark(mark) && live.Annotations[SchedulerAnnotation] == mark
		},
	})
	if err == nil {
		klog.InfoS("Withdrew a former leader's reservation of a claim; the pod was not bound", "claim", klog.KObj(claim))
	}
	return err
}
