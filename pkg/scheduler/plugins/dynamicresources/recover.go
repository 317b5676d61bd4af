// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// recover withdraws the writes of a former leader for pods that the leader did not bind. It removes the reservations of claims for
// this scheduler's pods without a node. Then it removes allocations that no pod uses, if SchedulerAnnotation names this scheduler.
func (d *devices) recover(ctx context.Context) error {
	if err := d.waitUntilReady(ctx); err != nil {
		return err
	}
	r := recovery{devices: d, pods: map[string]map[types.UID]bool{}}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return d.kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, options)
	}
	return framework.VisitAll(ctx, "claims", callTimeout, list, func(claim *resourceapi.ResourceClaim) error {
		if err := r.claim(ctx, claim); err != nil {
			return fmt.Errorf("claim %s: %w", klog.KObj(claim), err)
		}
		return nil
	})
}

type recovery struct {
	devices *devices
	// pods caches, by namespace, this scheduler's pods without a node. mu guards pods.
	mu   sync.Mutex
	pods map[string]map[types.UID]bool
}

// claim withdraws a former leader's writes for the claim. It also removes the finalizer of an unallocated claim, which a
// withdrawal that ended early may have left.
func (r *recovery) claim(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	mark := claim.Annotations[SchedulerAnnotation]
	ours := framework.IsOwnMark(mark)
	unused := ours && len(claim.Status.ReservedFor) == 0 && (claim.Status.Allocation != nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer))
	if !unused && (len(claim.Status.ReservedFor) == 0 || !ours && framework.SharesName()) {
		return nil
	}
	pending, err := r.pending(ctx, claim.Namespace)
	if err != nil {
		return err
	}
	leaves := func(user resourceapi.ResourceClaimConsumerReference) bool {
		return user.APIGroup == "" && user.Resource == "pods" && pending[user.UID]
	}
	if !unused && !slices.ContainsFunc(claim.Status.ReservedFor, leaves) {
		return nil
	}
	klog.InfoS("Withdrawing a former leader's reservation of a claim, the pod was not bound", "claim", klog.KObj(claim))
	_, err = r.devices.writeWithdrawal(ctx, withdrawal{
		namespace: claim.Namespace, name: claim.Name, uid: claim.UID, scheduler: mark, leaves: leaves,
		frees: func(live *resourceapi.ResourceClaim) bool {
			return ours && live.Annotations[SchedulerAnnotation] == mark
		},
	})
	return err
}

// pending returns the UIDs of this scheduler's pods in the namespace that have no node. It reads the pods from the API server.
func (r *recovery) pending(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.pods[namespace]; known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := r.devices.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: withoutNode.String()})
	if err != nil {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
	}
	found := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" && !podutil.IsPodTerminal(pod) && slices.Contains(framework.OwnNames(), pod.Spec.SchedulerName) {
			found[pod.UID] = true
		}
	}
	r.pods[namespace] = found
	return found, nil
}

// withoutNode selects pods without a node. The API server might take too long to list all pods of a namespace.
var withoutNode = fields.OneTermEqualSelector("spec.nodeName", "")
