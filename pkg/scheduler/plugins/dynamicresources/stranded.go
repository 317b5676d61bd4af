// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// mostFreed is how many stranded claims are deallocated at a time. A claim beyond that has its turn in a later session.
const mostFreed = 16

// freeStranded deallocates, beside the session, a claim that was made for the pod and has devices of nodes that no longer exist: the pod
// could be placed nowhere. Kubernetes' scheduler does so in its PostFilter.
func (d *devices) freeStranded(pod *v1.Pod, claim podClaim) {
	if !d.isStranded(pod.UID, claim) {
		return
	}
	select {
	case d.freeing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-d.freeing }()
		klog.InfoS("Deallocating a claim whose devices are of a node that no longer exists", "claim", klog.KObj(claim), "pod", klog.KObj(pod))
		if err := d.free(context.Background(), pod.UID, claim.ResourceClaim); err != nil {
			klog.ErrorS(err, "Deallocating a claim whose devices are of a node that no longer exists", "claim", klog.KObj(claim), "pod", klog.KObj(pod))
		}
	}()
}

// isStranded reports whether the claim was made for the pod alone, is used by no other, and has devices that no node reaches.
func (d *devices) isStranded(pod types.UID, claim podClaim) bool {
	if !claim.own || claim.Status.Allocation == nil || !d.noneExists(claim.Status.Allocation.NodeSelector) {
		return false
	}
	if slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID != pod }) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[claim.UID] == nil
}

// noneExists reports whether the selector is for nodes by name, none of which exists. Nodes with a label may come at any time.
func (d *devices) noneExists(selector *v1.NodeSelector) bool {
	gone := func(name string) bool {
		_, err := d.nodes.Get(name)
		return apierrors.IsNotFound(err)
	}
	return selector != nil && len(selector.NodeSelectorTerms) > 0 && !slices.ContainsFunc(selector.NodeSelectorTerms, func(term v1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchFields, func(field v1.NodeSelectorRequirement) bool {
			return field.Key == metav1.ObjectNameField && field.Operator == v1.NodeSelectorOpIn && !slices.ContainsFunc(field.Values, func(name string) bool { return !gone(name) })
		})
	})
}

// free deallocates the claim, unless it was written since it was read: what is written now may be for a pod that is being bound.
func (d *devices) free(ctx context.Context, pod types.UID, read *resourceapi.ResourceClaim) error {
	_, err := d.take(ctx, withdrawal{
		namespace: read.Namespace, name: read.Name, uid: read.UID, scheduler: read.Annotations[SchedulerAnnotation], of: read.ResourceVersion,
		leaves: func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == pod },
		frees:  func(*resourceapi.ResourceClaim) bool { return true },
	})
	return err
}
