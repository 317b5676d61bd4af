// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// nodeLockLife is how long a lock counts whose holder does not give it back. It is upstream's.
const nodeLockLife = 5 * time.Minute

// expired is true if a lock of that time counts no longer. One that is no time counts until somebody removes it.
func expired(since string) bool {
	t, err := time.Parse(time.RFC3339, since)
	return err == nil && time.Since(t) > nodeLockLife
}

// lockStep is the pre-bind step that takes a lock of the member's node. It is the last step, so that the lock is held as
// shortly as can be; the device plugin gives it back. A scheduler that dies in between leaves it to expire.
func lockStep(kube kubernetes.Interface, annotation string) binding.Step {
	l := &lockHolder{nodes: kube.CoreV1().Nodes(), annotation: annotation}
	return binding.Step{Plugin: "deviceshare", PreBind: l.take, Rollback: l.giveBack}
}

type lockHolder struct {
	nodes      corev1.NodeInterface
	annotation string
	// written is the lock's value once it is there, or may be.
	written string
}

func (l *lockHolder) take(ctx context.Context, _ *api.TaskInfo, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := l.nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if since, ok := node.Annotations[l.annotation]; ok && !expired(since) {
			return fmt.Errorf("node %s is locked (annotation %s) since %s: another pod is being given its devices", name, l.annotation, since)
		}
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		l.written = time.Now().Format(time.RFC3339)
		node.Annotations[l.annotation] = l.written
		_, err = l.nodes.Update(ctx, node, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			l.written = ""
		}
		return err
	})
}

func (l *lockHolder) giveBack(ctx context.Context, _ *api.TaskInfo, name string) error {
	if l.written == "" {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := l.nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil || node.Annotations[l.annotation] != l.written {
			return err
		}
		delete(node.Annotations, l.annotation)
		_, err = l.nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
