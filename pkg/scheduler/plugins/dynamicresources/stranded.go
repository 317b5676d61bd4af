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

// mostFreed is how many stranded claims are deallocated at a time: claims whose nodes no longer exist. Other stranded claims wait
// for a later session.
const mostFreed = 16

// freeStranded deallocates a claim that was generated for the pod, and whose devices belong to nodes that no longer exist.
// Otherwise the pod would fit no node. The session does not wait for the deallocation. The kube-scheduler deallocates such claims
// in its PostFilter.
func (d *devices) freeStranded(pod *v1.Pod, claim podClaim) {
	if pod.Spec.NodeName != "" || !d.isStranded(pod.UID, claim) {
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
		if err := d.free(context.Background(), pod, claim.ResourceClaim); err != nil {
			klog.ErrorS(err, "Deallocating a claim whose devices are of a node that no longer exists failed", "claim", klog.KObj(claim), "pod", klog.KObj(pod))
		}
	}()
}

// isStranded reports whether the claim was generated for the pod, no other pod uses the claim, and the nodes of its devices no
// longer exist. It returns false for a claim that a placed pod holds.
func (d *devices) isStranded(pod types.UID, claim podClaim) bool {
	known := func(node string) error { _, err := d.nodes.Get(node); return err }
	if !claim.own || claim.Status.Allocation == nil || !noneExists(claim.Status.Allocation.NodeSelector, known) {
		return false
	}
	if slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID != pod }) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[claim.UID] == nil
}

// noneExists reports whether the selector selects nodes by name, and get returns NotFound for all selected names. It returns false
// if the selector selects nodes by labels, because a node with these labels may be added at any time.
func noneExists(selector *v1.NodeSelector, get func(name string) error) bool {
	gone := func(name string) bool { return apierrors.IsNotFound(get(name)) }
	return selector != nil && len(selector.NodeSelectorTerms) > 0 && !slices.ContainsFunc(selector.NodeSelectorTerms, func(term v1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchFields, func(field v1.NodeSelectorRequirement) bool {
			return field.Key == metav1.ObjectNameField && field.Operator == v1.NodeSelectorOpIn && !slices.ContainsFunc(field.Values, func(name string) bool { return !gone(name) })
		})
	})
}

// free deallocates the claim, unless the claim has changed since it was read: another scheduler may be binding the pod now. First
// it reads the pod and the nodes from the API server, because informers may not show yet that the pod is bound, or that a node was
// added.
func (d *devices) free(ctx context.Context, pod *v1.Pod, read *resourceapi.ResourceClaim) error {
	if waits, err := d.waitsForNone(ctx, pod, read.Status.Allocation.NodeSelector); err != nil || !waits {
		return err
	}
	return d.writeWithdrawal(ctx, withdrawal{
		claim: read, scheduler: read.Annotations[SchedulerAnnotation], unlessChanged: true,
		leaves: func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == pod.UID },
		frees:  func(*resourceapi.ResourceClaim) bool { return true },
	})
}

// waitsForNone reports whether, according to the API server, the pod has no node, and none of the nodes that the selector names
// exists. An error means that the pod or a node could not be read.
func (d *devices) waitsForNone(ctx context.Context, pod *v1.Pod, selector *v1.NodeSelector) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	live, err := d.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || live.UID != pod.UID || live.Spec.NodeName != "" {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	var failed error
	none := noneExists(selector, func(name string) error {
		_, err := d.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = err
		}
		return err
	})
	return none && failed == nil, failed
}
