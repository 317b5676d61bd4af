// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// NewNode returns a node without tasks. shown is nil if no Node object exists. The result is then built from an empty
// Node, because upstream's constructor would log a warning for nil.
func NewNode(name string, shown *v1.Node) *api.NodeInfo {
	if shown != nil {
		return api.NewNodeInfo(shown)
	}
	info := api.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	info.Node, info.State = nil, api.NodeState{Phase: api.NotReady, Reason: "NotRegistered"}
	clear(info.Others)
	return info
}

// CloneNode returns a copy of the node with all its tasks. Upstream's Clone leaves out tasks with a bind transaction if
// they no longer fit on the node, for example because the node has shrunk.
func CloneNode(source *api.NodeInfo) *api.NodeInfo {
	clone := source.Clone()
	clone.Name = source.Name
	clone.NumaInfo = nil
	if len(clone.Tasks) == len(source.Tasks) {
		return clone
	}
	for key, task := range source.Tasks {
		if clone.Tasks[key] == nil {
			_ = AddToNode(clone, task.Clone())
		}
	}
	return clone
}
