// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Some device plugins cannot tell which of several pods they are asked for. A lock, an annotation of the node, has pods take turns: the scheduler
// takes it for a pod that it is about to bind, and the device plugin gives it back when the pod has its device. Its value is
// "2026-01-02T03:04:05Z,namespace,name".

// lockLife is how long a lock counts that nobody gives back.
const lockLife = 5 * time.Minute

// lockNode takes the lock of the node for the pod. It is idempotent.
func lockNode(ctx context.Context, kube kubernetes.Interface, annotation string, pod *v1.Pod, nodeName string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if value, ok := node.Annotations[annotation]; ok && !isLockOf(value, pod) {
			held, err := isHeld(ctx, kube, value)
			if err != nil {
				return err
			}
			if held {
				return fmt.Errorf("node %s is locked (annotation %s: %.253q): another pod is being given its devices", nodeName, annotation, value)
			}
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, annotation, time.Now().UTC().Format(time.RFC3339)+holderOf(pod))
		_, err = kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// unlockNode gives the lock back, if it is the pod's.
func unlockNode(ctx context.Context, kube kubernetes.Interface, annotation string, pod *v1.Pod, nodeName string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil || !isLockOf(node.Annotations[annotation], pod) {
			return err
		}
		delete(node.Annotations, annotation)
		_, err = kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func holderOf(pod *v1.Pod) string { return "," + pod.Namespace + "," + pod.Name }

func isLockOf(value string, pod *v1.Pod) bool { return strings.HasSuffix(value, holderOf(pod)) }

// isHeld is true of a lock that counts: one that is young enough, and whose pod is there. One that cannot be read counts until somebody removes it.
func isHeld(ctx context.Context, kube kubernetes.Interface, value string) (bool, error) {
	parts := strings.Split(value, ",")
	if len(parts) != 3 {
		return true, nil
	}
	if since, err := time.Parse(time.RFC3339, parts[0]); err != nil || time.Since(since) > lockLife {
		return err != nil, nil
	}
	_, err := kube.CoreV1().Pods(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return true, err
}
