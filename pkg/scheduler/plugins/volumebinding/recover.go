// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// recover withdraws the writes of a former leader for pods that the leader did not bind. It removes selected nodes from claims
// without a volume, and reservations of volumes that are not bound. It changes only objects with this scheduler's annotation, and
// no claims that a pod with a node uses. First it waits until the informers have processed their initial lists.
func (v *volumes) recover(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), v.objects.isReady) {
		return fmt.Errorf("%s cannot be read; allow the scheduler to list and watch them: %w", strings.Join(v.objects.unread(), ", "), context.Cause(ctx))
	}
	r := recovery{writer: &v.writer, inUse: map[string]sets.Set[string]{}}
	return errors.Join(r.claims(ctx), r.reserved(ctx))
}

type recovery struct {
	writer *writer
	// inUse caches, by namespace, the names of claims that pods with a node use. mu guards inUse.
	mu    sync.Mutex
	inUse map[string]sets.Set[string]
}

// claims removes the nodes that a former leader selected for claims. It reads the claims from the API server, because informers
// may not show the former leader's last writes yet.
func (r *recovery) claims(ctx context.Context) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.writer.kube.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, options)
	}
	return framework.VisitAll(ctx, "claims", callTimeout, list, func(claim *v1.PersistentVolumeClaim) error {
		node := claim.Annotations[volume.AnnSelectedNode]
		if node == "" || claim.Spec.VolumeName != "" || !framework.IsOwnMark(claim.Annotations[SchedulerAnnotation]) {
			return nil
		}
		used, err := r.used(ctx, claim.Namespace, claim.Name)
		if err != nil || used {
			return err
		}
		klog.InfoS("Withdrawing the node that a former leader selected for a claim, its pod was not bound", "claim", klog.KObj(claim), "node", node)
		return r.writer.unselect(ctx, nameOf(claim), claim.UID, node, claim.Annotations[SchedulerAnnotation])
	})
}

func (r *recovery) reserved(ctx context.Context) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.writer.kube.CoreV1().PersistentVolumes().List(ctx, options)
	}
	return framework.VisitAll(ctx, "volumes", callTimeout, list, func(reserved *v1.PersistentVolume) error {
		ref := reserved.Spec.ClaimRef
		scheduler := reserved.Annotations[SchedulerAnnotation]
		if ref == nil || ref.UID == "" || !isUnbound(reserved) || !framework.IsOwnMark(scheduler) || !reservedBy(reserved, scheduler, ref.UID) {
			return nil
		}
		used, err := r.used(ctx, ref.Namespace, ref.Name)
		if err != nil || used {
			return err
		}
		klog.InfoS("Withdrawing a former leader's reservation of a volume, the pod was not bound", "volume", klog.KObj(reserved), "claim", ref.Namespace+"/"+ref.Name)
		return r.writer.unreserve(ctx, reservation{reserved.Name, reserved.UID, ref.UID, scheduler})
	})
}

// used reports whether, according to the API server, a pod with a node uses the claim.
func (r *recovery) used(ctx context.Context, namespace, claim string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inUse, known := r.inUse[namespace]
	if !known {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		pods, err := r.writer.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
		}
		inUse = sets.Set[string]{}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) {
				for _, own := range claimVolumes(pod) {
					inUse.Insert(own.claim.Name)
				}
			}
		}
		r.inUse[namespace] = inUse
	}
	return inUse.Has(claim), nil
}
