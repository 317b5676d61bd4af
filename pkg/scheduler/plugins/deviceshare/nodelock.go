// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	devicekinds "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
)

// lockNode takes the lock of the node for the pod. It succeeds if the pod already holds the lock. The lock is an
// annotation of the node with a value in Koordinator's form: "2026-01-02T03:04:05Z,namespace,name".
func lockNode(ctx context.Context, kube kubernetes.Interface, annotation string, pod *v1.Pod, nodeName string) error {
	value := time.Now().UTC().Format(time.RFC3339) + holderOf(pod)
	_, err := devicekinds.NodeLock{Kube: kube, Annotation: annotation}.Take(ctx, nodeName, value, func(was string) (bool, error) {
		if isLockOf(was, pod) {
			return false, nil
		}
		return isHeld(ctx, kube, was)
	})
	return err
}

// unlockNode releases the lock of the node if the pod holds it.
func unlockNode(ctx context.Context, kube kubernetes.Interface, annotation string, pod *v1.Pod, nodeName string) error {
	return devicekinds.NodeLock{Kube: kube, Annotation: annotation}.Release(ctx, nodeName, func(value string) bool { return isLockOf(value, pod) })
}

func holderOf(pod *v1.Pod) string { return "," + pod.Namespace + "," + pod.Name }

func isLockOf(value string, pod *v1.Pod) bool { return strings.HasSuffix(value, holderOf(pod)) }

// isHeld reports whether a lock with this value is valid: it is recent enough, and the pod that it names exists. A
// value that cannot be parsed counts as valid until it is removed.
func isHeld(ctx context.Context, kube kubernetes.Interface, value string) (bool, error) {
	parts := strings.Split(value, ",")
	if len(parts) != 3 {
		return true, nil
	}
	if since, err := time.Parse(time.RFC3339, parts[0]); err != nil || time.Since(since) > devicekinds.NodeLockLife {
		return err != nil, nil
	}
	_, err := kube.CoreV1().Pods(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return true, err
}
