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

// dropNUMA deletes the Numatopology of a node that was deleted: its agent, which made it, no longer exists. A node that is registered again has
// an agent, whose Numatopology has the same name. It does not block.
func (c *Cache) dropNUMA(node string) {
	if c.watchesNode(node) {
		return
	}
	c.books.Lock()
	info := c.books.Nodes.Get(node)
	known := info != nil && info.NumaInfo != nil
	c.books.Unlock()
	if !known {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), numaTimeout)
		defer cancel()
		err := c.vc.NodeinfoV1alpha1().Numatopologies().Delete(ctx, node, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			logger().Error(err, "Deleting the Numatopology of a node that was deleted", "node", node)
		}
	}()
}
