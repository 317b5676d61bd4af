// SPDX-License-Identifier: Apache-2.0

package nodelease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// nodeLabel is a label of every Lease of the plugin. Its value is the name of the node.
const nodeLabel = "nodelease.example.com/node"

// holder is the pod that holds a claim. A pod that was deleted and recreated is a different holder.
type holder struct {
	namespace, name string
	uid             types.UID
}

func holderOf(pod *corev1.Pod) holder { return holder{pod.Namespace, pod.Name, pod.UID} }

// String returns the holder in the format of a Lease's holderIdentity.
func (h holder) String() string { return h.namespace + "/" + h.name + "/" + string(h.uid) }

func parseHolder(identity string) (holder, error) {
	parts := strings.Split(identity, "/")
	if len(parts) != 3 {
		return holder{}, fmt.Errorf("holderIdentity %q is not of the form namespace/name/uid", identity)
	}
	return holder{parts[0], parts[1], types.UID(parts[2])}, nil
}

// claims manages the claims of pods on nodes. A claim is a Lease, one for each node. The Lease stays when its pod ends,
// and then another pod may take it over.
type claims struct {
	client    kubernetes.Interface
	namespace string
}

func leaseName(node string) string { return "nodelease-" + node }

// take claims the node for the pod and returns the name of the Lease. It fails if another pod that still needs the node
// holds the Lease.
func (c claims) take(ctx context.Context, node string, by holder) (string, error) {
	leases := c.client.CoordinationV1().Leases(c.namespace)
	identity := by.String()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName(node), Labels: map[string]string{nodeLabel: node}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &identity},
	}
	_, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return lease.Name, err
	}
	taken, err := leases.Get(ctx, lease.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if identityOf(taken) == identity {
		return lease.Name, nil
	}
	inUse, err := c.inUse(ctx, taken)
	if err != nil {
		return "", err
	}
	if inUse {
		return "", fmt.Errorf("it is claimed by %s", identityOf(taken))
	}
	// The update carries the resource version that was read, so it fails if another writer was faster.
	taken.Spec.HolderIdentity = &identity
	_, err = leases.Update(ctx, taken, metav1.UpdateOptions{})
	return lease.Name, err
}

// release deletes the pod's claim on the node. It does nothing if another pod holds the claim.
func (c claims) release(ctx context.Context, node string, by holder) error {
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, leaseName(node), metav1.GetOptions{})
	if err != nil {
		return err // NotFound counts as success
	}
	if identityOf(lease) != by.String() {
		return nil
	}
	return c.end(ctx, lease)
}

// endStale deletes the claims of pods that are not on the node. It keeps a claim that it cannot check, and reports it in
// the error.
func (c claims) endStale(ctx context.Context) error {
	list, err := c.client.CoordinationV1().Leases(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: nodeLabel})
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	var errs []error
	for i := range list.Items {
		lease := &list.Items[i]
		onNode, err := c.onNode(ctx, lease)
		if err == nil && !onNode {
			err = c.end(ctx, lease)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("claim %s/%s: %w", lease.Namespace, lease.Name, err))
		}
	}
	return errors.Join(errs...)
}

// end deletes the Lease if it has not changed since it was read.
func (c claims) end(ctx context.Context, lease *coordinationv1.Lease) error {
	return c.client.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// inUse reports whether the Lease's pod exists and has not finished. The pod need not be bound yet.
func (c claims) inUse(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	pod, err := c.podOf(ctx, lease)
	return pod != nil && !finished(pod), err
}

// onNode reports whether the Lease's pod is bound to the node and has not finished.
func (c claims) onNode(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	pod, err := c.podOf(ctx, lease)
	return pod != nil && !finished(pod) && pod.Spec.NodeName == lease.Labels[nodeLabel], err
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podOf reads the pod that holds the Lease from the API server. It returns nil if the pod does not exist.
func (c claims) podOf(ctx context.Context, lease *coordinationv1.Lease) (*corev1.Pod, error) {
	by, err := parseHolder(identityOf(lease))
	if err != nil {
		return nil, err
	}
	pod, err := c.client.CoreV1().Pods(by.namespace).Get(ctx, by.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != by.uid {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

func identityOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
