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

// nodeLabel is on every Lease of the plugin; its value is the name of the node.
const nodeLabel = "nodelease.example.com/node"

// holder is the pod that holds a claim. A pod that was deleted and made anew is another holder.
type holder struct {
	namespace, name string
	uid             types.UID
}

func holderOf(pod *corev1.Pod) holder { return holder{pod.Namespace, pod.Name, pod.UID} }

// String is the holder as a Lease's holderIdentity has it.
func (h holder) String() string { return h.namespace + "/" + h.name + "/" + string(h.uid) }

func parseHolder(identity string) (holder, error) {
	parts := strings.Split(identity, "/")
	if len(parts) != 3 {
		return holder{}, fmt.Errorf("holderIdentity %q is not of the form namespace/name/uid", identity)
	}
	return holder{parts[0], parts[1], types.UID(parts[2])}, nil
}

// claims are Leases that each stand for a node. A claim lasts as long as its pod is on the node: it is not ended
// when the pod ends, but from then on anyone may take it over.
type claims struct {
	client    kubernetes.Interface
	namespace string
}

func leaseName(node string) string { return "nodelease-" + node }

// take claims the node for the pod and returns the name of the Lease. It fails when a pod that needs the node
// holds it.
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
	// The update fails when someone else was quicker: it carries the resource version that was judged.
	taken.Spec.HolderIdentity = &identity
	_, err = leases.Update(ctx, taken, metav1.UpdateOptions{})
	return lease.Name, err
}

// release ends the pod's claim on the node, if it has it.
func (c claims) release(ctx context.Context, node string, by holder) error {
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, leaseName(node), metav1.GetOptions{})
	if err != nil {
		return err // NotFound is as good as done
	}
	if identityOf(lease) != by.String() {
		return nil
	}
	return c.end(ctx, lease)
}

// endStale ends every claim of a pod that is not on the node. A claim that cannot be judged is left and reported.
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

// end deletes the Lease, provided that it is still as it was read.
func (c claims) end(ctx context.Context, lease *coordinationv1.Lease) error {
	return c.client.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// inUse is true if the Lease's pod is there and has not finished; it may be on its way to the node.
func (c claims) inUse(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	pod, err := c.podOf(ctx, lease)
	return pod != nil && !finished(pod), err
}

// onNode is true if the Lease's pod is bound to the node and has not finished.
func (c claims) onNode(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	pod, err := c.podOf(ctx, lease)
	return pod != nil && !finished(pod) && pod.Spec.NodeName == lease.Labels[nodeLabel], err
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podOf reads the pod that holds the Lease; nil when it is gone.
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
