// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
)

// recover withdraws the writes of a former leader for pods that it did not bind: reservations for this scheduler's pods without a
// node, and then allocations with its mark that have no user.
func (d *devices) recover(ctx context.Context) error {
	if err := d.waitUntilReady(ctx); err != nil {
		return err
	}
	r := recovery{devices: d, pods: map[string]map[types.UID]bool{}}
	var errs []error
	err := eachClaim(ctx, d.kube, func(claim *resourceapi.ResourceClaim) {
		if err := r.claim(ctx, claim); err != nil {
			errs = append(errs, fmt.Errorf("claim %s: %w", klog.KObj(claim), err))
		}
	})
	return errors.Join(append(errs, err)...)
}

// eachClaim visits all claims at the API server, because informers may not show the former leader's last writes yet.
func eachClaim(ctx context.Context, kube kubernetes.Interface, visit func(*resourceapi.ResourceClaim)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if claim, ok := object.(*resourceapi.ResourceClaim); ok {
			visit(claim)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	return nil
}

type recovery struct {
	*devices
	// pods caches, by namespace, this scheduler's pods without a node.
	pods map[string]map[types.UID]bool
}

// claim withdraws a former leader's remaining writes for a claim. A claim that it has marked may have only a finalizer
// left.
func (r *recovery) claim(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	mark := claim.Annotations[SchedulerAnnotation]
	ours := mark != "" && isOurs(mark)
	unused := ours && len(claim.Status.ReservedFor) == 0 && (claim.Status.Allocation != nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer))
	if !unused && (len(claim.Status.ReservedFor) == 0 || !ours && shareName()) {
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
	_, err = r.writeWithdrawal(ctx, withdrawal{
		namespace: claim.Namespace, name: claim.Name, uid: claim.UID, scheduler: mark, leaves: leaves,
		frees: func(live *resourceapi.ResourceClaim) bool {
			return ours && live.Annotations[SchedulerAnnotation] == mark
		},
	})
	return err
}

// pending returns the UIDs of this scheduler's pods without a node in the namespace, read from the API server.
func (r *recovery) pending(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	if known := r.pods[namespace]; known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := r.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: withoutNode.String()})
	if err != nil {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
	}
	found := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" && !finished(pod) && slices.Contains(schedulerNames(), pod.Spec.SchedulerName) {
			found[pod.UID] = true
		}
	}
	r.pods[namespace] = found
	return found, nil
}

// withoutNode selects the pods without a node. All pods of a namespace may be too many to list in time.
var withoutNode = fields.OneTermEqualSelector("spec.nodeName", "")

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// isOurs reports whether this scheduler, under one of its names, wrote the mark.
func isOurs(mark string) bool {
	return slices.ContainsFunc(schedulerNames(), func(name string) bool { return withOwnName(name) == mark })
}

func schedulerNames() []string {
	if options.ServerOpts == nil {
		return nil
	}
	return options.ServerOpts.SchedulerNames
}
