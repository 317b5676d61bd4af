// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// NodeLockLife is how long a node lock is valid if its holder does not release it. Upstream and Koordinator use the
// same value.
const NodeLockLife = 5 * time.Minute

// NodeLock is a lock of a node that lets only one pod at a time start there, for device plugins that cannot distinguish
// pods. The lock is an annotation of the node. The scheduler writes the annotation for a pod that it is about to bind.
// The device plugin removes it once the pod has its devices.
type NodeLock struct {
	Kube       kubernetes.Interface
	Annotation string
}

// Take writes the value into the lock annotation of the node. It returns an error if the annotation already has a value
// that is a valid lock according to `counts`. `written` reports whether the node has the new value, or may have it.
func (l NodeLock) Take(ctx context.Context, nodeName, value string, counts func(was string) (bool, error)) (written bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		written = false
		node, err := l.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if was, ok := node.Annotations[l.Annotation]; ok {
			held, err := counts(was)
			if err != nil {
				return err
			}
			if held {
				return fmt.Errorf("node %s is locked (annotation %s: %.253q): another pod is being allocated its devices", nodeName, l.Annotation, was)
			}
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, l.Annotation, value)
		_, err = l.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		written = !apierrors.IsConflict(err)
		return err
	})
	return written, err
}

// Release removes the lock from the node if isHolders reports that the lock's value is the holder's.
func (l NodeLock) Release(ctx context.Context, nodeName string, isHolders func(value string) bool) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := l.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil || !isHolders(node.Annotations[l.Annotation]) {
			return err
		}
		delete(node.Annotations, l.Annotation)
		_, err = l.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// lockStep returns the pre-bind step that takes a lock of the member's node. It must be the last step, so that the lock
// is held as briefly as possible. The device plugin releases the lock. If the scheduler dies before the bind, the lock
// expires.
func lockStep(kube kubernetes.Interface, annotation string) binding.Step {
	l := &lockHolder{lock: NodeLock{kube, annotation}}
	return binding.Step{Plugin: "deviceshare", PreBind: l.acquire, Rollback: l.release}
}

// lockHolder takes and releases locks in upstream's format: the value of a lock is the time at which it was taken.
type lockHolder struct {
	lock NodeLock
	// written is the value that the scheduler wrote into the lock; empty if the node cannot have the value.
	written string
}

func (l *lockHolder) acquire(ctx context.Context, _ *api.TaskInfo, name string) error {
	now := time.Now().Format(time.RFC3339)
	written, err := l.lock.Take(ctx, name, now, func(since string) (bool, error) { return !expired(since), nil })
	if written {
		l.written = now
	}
	return err
}

// expired reports whether a lock with this value, the time at which it was taken, is no longer valid. A lock whose
// value is not a time is valid until it is removed.
func expired(since string) bool {
	t, err := time.Parse(time.RFC3339, since)
	return err == nil && time.Since(t) > NodeLockLife
}

func (l *lockHolder) release(ctx context.Context, _ *api.TaskInfo, name string) error {
	if l.written == "" {
		return nil
	}
	return l.lock.Release(ctx, name, func(value string) bool { return value == l.written })
}
