// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// numaTimeout bounds the deletion of a Numatopology.
const numaTimeout = 15 * time.Second

// dropNUMA deletes the Numatopology of a deleted node, because the agent that created it no longer exists. If a node of
// that name exists again, dropNUMA does nothing, because the new node's agent uses a Numatopology of the same name.
// dropNUMA does not block.
func (ch *changes) dropNUMA(node string) {
	if _, err := ch.sources.kube.Core().V1().Nodes().Lister().Get(node); err == nil {
		return
	}
	ch.books.Lock()
	info := ch.books.Nodes.Get(node)
	known := info != nil && info.NumaInfo != nil
	ch.books.Unlock()
	if !known {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), numaTimeout)
		defer cancel()
		err := ch.vc.NodeinfoV1alpha1().Numatopologies().Delete(ctx, node, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			logger().Error(err, "Deleting the Numatopology of a deleted node failed", "node", node)
		}
	}()
}
