// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// recover withdraws the writes of a former leader for pods that the leader did not bind. It removes selected nodes from claims
// without a volume, and reservations of volumes that are not bound. It changes only objects with this scheduler's annotation, and
// no claims that a pod with a node uses. First it waits until the informers have processed their initial lists. An error means that
// objects cannot be read. Writes that cannot be withdrawn yet are retried in the background, and their claims' pods wait.
func (v *volumes) recover(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), v.objects.isReady) {
		return fmt.Errorf("%s cannot be read; allow the scheduler to list and watch them: %w", strings.Join(v.objects.unread(), ", "), context.Cause(ctx))
	}
	return v.unrecovered.Recover(func(pass *framework.RecoveryPass) error {
		r := recovery{&v.writer}
		return errors.Join(r.claims(ctx, pass), r.reserved(ctx, pass))
	})
}

// recovered returns an error if a former leader's writes for one of the unbound claims are not withdrawn yet.
func (v *volumes) recovered(late []claimRequest) error {
	for _, claim := range late {
		if err := v.unrecovered.Check(nameOf(claim.PersistentVolumeClaim)); err != nil {
			return fmt.Errorf("%s: %w", describe(claim.PersistentVolumeClaim), err)
		}
	}
	return nil
}

// recovery implements framework.Withdrawer. The keys of pods are the names of the claims that pods with a node use.
type recovery struct{ writer *writer }

// claims removes the nodes that a former leader selected for claims.
func (r recovery) claims(ctx context.Context, pass *framework.RecoveryPass) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.writer.kube.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, options)
	}
	return framework.VisitAll(ctx, "claims", list, func(claim *v1.PersistentVolumeClaim) {
		if isSelected(claim) {
			pass.Visit(ctx, framework.Leftover{Claim: nameOf(claim)}, func(ctx context.Context, used sets.Set[string]) error {
				return r.unselect(ctx, claim, used)
			})
		}
	})
}

// reserved withdraws a former leader's reservations of volumes.
func (r recovery) reserved(ctx context.Context, pass *framework.RecoveryPass) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.writer.kube.CoreV1().PersistentVolumes().List(ctx, options)
	}
	return framework.VisitAll(ctx, "volumes", list, func(pv *v1.PersistentVolume) {
		if claim, is := leftReservation(pv); is {
			pass.Visit(ctx, framework.Leftover{Claim: claim, Volume: pv.Name}, func(ctx context.Context, used sets.Set[string]) error {
				return r.unreserve(ctx, pv, used)
			})
		}
	})
}

// ListPods implements framework.Withdrawer.
func (r recovery) ListPods(ctx context.Context, namespace string, options metav1.ListOptions) (*v1.PodList, error) {
	return r.writer.kube.CoreV1().Pods(namespace).List(ctx, options)
}

// PodKeys implements framework.Withdrawer: it returns the names of the claims that a pod with a node uses.
func (r recovery) PodKeys(pod *v1.Pod) (claims []string) {
	if pod.Spec.NodeName == "" || podutil.IsPodTerminal(pod) {
		return nil
	}
	for _, own := range claimVolumes(pod) {
		claims = append(claims, own.claim.Name)
	}
	return claims
}

// WithdrawAgain implements framework.Withdrawer.
func (r recovery) WithdrawAgain(ctx context.Context, of framework.Leftover, used sets.Set[string]) error {
	read, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if of.Volume == "" {
		claim, err := r.writer.kube.CoreV1().PersistentVolumeClaims(of.Claim.Namespace).Get(read, of.Claim.Name, metav1.GetOptions{})
		if err != nil || !isSelected(claim) {
			return ignoreNotFound(err)
		}
		return r.unselect(ctx, claim, used)
	}
	pv, err := r.writer.kube.CoreV1().PersistentVolumes().Get(read, of.Volume, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	if claim, is := leftReservation(pv); !is || claim != of.Claim {
		return nil
	}
	return r.unreserve(ctx, pv, used)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isSelected reports whether this scheduler selected a node for the claim, which has no volume yet.
func isSelected(claim *v1.PersistentVolumeClaim) bool {
	return claim.Annotations[volume.AnnSelectedNode] != "" && claim.Spec.VolumeName == "" && framework.IsOwnMark(claim.Annotations[SchedulerAnnotation])
}

// leftReservation returns the claim for which this scheduler reserved the volume; false if it did not, or if the volume is bound.
func leftReservation(pv *v1.PersistentVolume) (claim types.NamespacedName, is bool) {
	ref, scheduler := pv.Spec.ClaimRef, pv.Annotations[SchedulerAnnotation]
	if ref == nil || ref.UID == "" || !isUnbound(pv) || !framework.IsOwnMark(scheduler) || !reservedBy(pv, scheduler, ref.UID) {
		return claim, false
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, true
}

func (r recovery) unselect(ctx context.Context, claim *v1.PersistentVolumeClaim, used sets.Set[string]) error {
	if used.Has(claim.Name) {
		return nil
	}
	node := claim.Annotations[volume.AnnSelectedNode]
	err := r.writer.unselect(ctx, nameOf(claim), claim.UID, node, claim.Annotations[SchedulerAnnotation])
	if err == nil {
		klog.InfoS("Withdrew the node that a former leader selected for a claim; its pod was not bound", "claim", klog.KObj(claim), "node", node)
	}
	return err
}

func (r recovery) unreserve(ctx context.Context, pv *v1.PersistentVolume, used sets.Set[string]) error {
	ref := pv.Spec.ClaimRef
	if used.Has(ref.Name) {
		return nil
	}
	err := r.writer.unreserve(ctx, reservation{pv.Name, pv.UID, ref.UID, pv.Annotations[SchedulerAnnotation]})
	if err == nil {
		klog.InfoS("Withdrew a former leader's reservation of a volume; the pod was not bound", "volume", klog.KObj(pv), "claim", ref.Namespace+"/"+ref.Name)
	}
	return err
}
