// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	clientset "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/informers/externalversions"
	listers "github.com/volcano-prebind/volcano-prebind/pkg/client/listers/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// topologyLabel names, in messages, the ClusterNetworkTopology that the plugin reads.
const topologyLabel = "ClusterNetworkTopology " + v1alpha1.DefaultTopologyName

// topologies watches the ClusterNetworkTopology. The watch starts once a gang has a topology rule.
type topologies struct {
	watch framework.Kept[*topologyWatch]
}

type topologyWatch struct {
	lister listers.ClusterNetworkTopologyLister
	synced func() bool
}

// of returns the ClusterNetworkTopology, or an error if it does not exist or has not been read yet.
func (t *topologies) of(h framework.Handle) (*v1alpha1.ClusterNetworkTopology, error) {
	watch, err := t.watch.Of(h, watchTopology)
	if err != nil {
		return nil, err
	}
	if !watch.synced() {
		return nil, errors.New(topologyLabel + " has not been read yet: the scheduler just started to watch it, or the API server does not serve it")
	}
	found, err := watch.lister.Get(v1alpha1.DefaultTopologyName)
	if err != nil { // a lister's only error is NotFound
		return nil, errors.New(topologyLabel + ", which defines the layers of the network, does not exist")
	}
	return found, nil
}

func watchTopology(h framework.Handle) (*topologyWatch, []cache.SharedIndexInformer, error) {
	client, err := clientset.NewForConfig(h.RestConfig())
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client for %s: %w", topologyLabel, err)
	}
	objects := externalversions.NewSharedInformerFactory(client, 0).Scheduling().V1alpha1().ClusterNetworkTopologies()
	informer := objects.Informer()
	changed := func(any) { h.Wake() }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, now any) { h.Wake() }}); err != nil {
		return nil, nil, fmt.Errorf("watching %s: %w", topologyLabel, err)
	}
	// The plugin does not wait for the initial list of topologies, because the API server may not serve this kind.
	// Later sessions try to read the topology again.
	if err := h.StartInformers(informer); err != nil {
		return nil, nil, err
	}
	return &topologyWatch{objects.Lister(), informer.HasSynced}, nil, nil
}

const (
	// maxLayers limits the layers of a topology, and maxLayerKeys the label keys of a layer. All of them are checked
	// for each node.
	maxLayers    = 16
	maxLayerKeys = 16
)

// layer is a layer of the network between the cluster and the nodes. keys are the node labels whose values name the
// layer's domains.
type layer struct {
	name string
	keys []string
}

// layersOf returns the topology's layers between the cluster and the nodes, the widest first. The layers must form
// one chain from a layer without a parent.
func layersOf(topology *v1alpha1.ClusterNetworkTopology) ([]layer, error) {
	wrong := func(format string, args ...any) ([]layer, error) {
		return nil, fmt.Errorf("%s: spec.networkTopologySpec: "+format, append([]any{topologyLabel}, args...)...)
	}
	said := topology.Spec.NetworkTopologySpec
	if len(said) > maxLayers {
		return wrong("found %d layers, want at most %d", len(said), maxLayers)
	}
	inside := map[v1alpha1.TopologyLayer]*v1alpha1.NetworkTopologySpec{} // by parent
	names := map[v1alpha1.TopologyLayer]bool{}
	for i := range said {
		parent := said[i].ParentTopologyLayer
		if parent == v1alpha1.ClusterTopologyLayer {
			parent = ""
		}
		switch name := said[i].TopologyLayer; {
		case name == "" || name == v1alpha1.ClusterTopologyLayer:
			return wrong("found a layer named %q, want one with a name of its own", name)
		case names[name]:
			return wrong("found layer %s twice, want each layer once", brief.Value(string(name)))
		case inside[parent] != nil:
			return wrong("layers %s and %s have the same parent, want one within the other", brief.Value(string(inside[parent].TopologyLayer)), brief.Value(string(name)))
		case name != v1alpha1.NodeTopologyLayer && (len(said[i].LabelKey) == 0 || len(said[i].LabelKey) > maxLayerKeys):
			return wrong("layer %s has %d label keys, want 1 to %d", brief.Value(string(name)), len(said[i].LabelKey), maxLayerKeys)
		default:
			names[name] = true
			inside[parent] = &said[i]
		}
	}
	var layers []layer
	seen := 0
	for next := inside[""]; next != nil; next = inside[next.TopologyLayer] {
		if seen++; next.TopologyLayer != v1alpha1.NodeTopologyLayer {
			layers = append(layers, layer{string(next.TopologyLayer), next.LabelKey})
		} else if seen < len(said) {
			return wrong("layer %s has a child layer, but must be the lowest", v1alpha1.NodeTopologyLayer)
		}
	}
	if seen < len(said) {
		return wrong("layers without a path to the widest layer: %d; correct their parents", len(said)-seen)
	}
	return layers, nil
}

// domainsOf returns the names of the domains that contain the node, one for each layer. If the node has none of a
// layer's labels, it is a domain of its own in that layer.
func domainsOf(layers []layer, node *v1.Node) []string {
	domains := make([]string, len(layers))
	for i, l := range layers {
		at := slices.IndexFunc(l.keys, func(key string) bool { return node.Labels[key] != "" })
		if at < 0 {
			domains[i] = "node/" + node.Name // the name is unique, because label values have no slash
			continue
		}
		domains[i] = node.Labels[l.keys[at]]
	}
	return domains
}
