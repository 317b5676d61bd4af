// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// FutureIdle returns the node's idle resources after all releases are done and all tasks waiting for them are placed.
func FutureIdle(node *api.NodeInfo) *api.Resource {
	if upstream.IsEmpty(node.Releasing) && upstream.IsEmpty(node.Pipelined) {
		return node.Idle
	}
	return node.FutureIdle()
}

// insufficient returns, sorted, the names of the resources of which the node has too little for the request, even once
// all releases are done.
func insufficient(request *api.Resource, node *api.NodeInfo) []string {
	idle := FutureIdle(node)
	if request.LessEqual(idle, api.Zero) {
		return nil
	}
	_, short := request.LessEqualWithResourcesName(idle, api.Zero)
	slices.Sort(short)
	return short
}
