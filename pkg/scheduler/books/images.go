// SPDX-License-Identifier: Apache-2.0

package books

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// images counts, for each container image, the nodes that have it.
type images struct {
	nodes map[string]sets.Set[string]
	on    map[string][]string
}

// show replaces the images of the node, and returns the node's images in the form that a session reads. For each image,
// the result has the current number of nodes with the image. Later changes on other nodes do not update that number, as
// in upstream.
func (i *images) show(node *v1.Node) map[string]*fwk.ImageStateSummary {
	i.hide(node.Name)
	if i.nodes == nil {
		i.nodes, i.on = map[string]sets.Set[string]{}, map[string][]string{}
	}
	states := map[string]*fwk.ImageStateSummary{}
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			if states[name] != nil {
				continue
			}
			if i.nodes[name] == nil {
				i.nodes[name] = sets.New[string]()
			}
			i.nodes[name].Insert(node.Name)
			i.on[node.Name] = append(i.on[node.Name], name)
			states[name] = &fwk.ImageStateSummary{Size: image.SizeBytes, NumNodes: len(i.nodes[name])}
		}
	}
	return states
}

func (i *images) hide(node string) {
	for _, name := range i.on[node] {
		i.nodes[name].Delete(node)
		if len(i.nodes[name]) == 0 {
			delete(i.nodes, name)
		}
	}
	delete(i.on, node)
}
