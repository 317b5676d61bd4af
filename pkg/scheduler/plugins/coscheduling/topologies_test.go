// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// wakingHandle is a handle that counts started informers and reports requested sessions.
type wakingHandle struct {
	framework.Handle
	started int
	refuses error
	woken   chan struct{}
}

func (h *wakingHandle) Wake() { h.woken <- struct{}{} }

func (h *wakingHandle) StartInformers(informers ...cache.SharedIndexInformer) error {
	h.started += len(informers)
	if h.refuses != nil {
		return h.refuses
	}
	return h.Handle.StartInformers(informers...)
}

// TestTheTopologyIsRead checks that each scheduler reads the topology from its own API server once it exists, and that
// its creation requests a session.
func TestTheTopologyIsRead(t *testing.T) {
	handleOf := func(serves bool) *wakingHandle {
		cluster := sessiontest.New(sessiontest.ClusterSpec{})
		t.Cleanup(cluster.Close)
		if serves {
			cluster.Devices().PutTopology(spines)
		}
		return &wakingHandle{Handle: cluster.Handle(), woken: make(chan struct{}, 10)}
	}
	const notRead = "ClusterNetworkTopology default has not been read yet: the scheduler just started to watch it, or the API server does not serve it"
	known := &topologies{}
	without := handleOf(false)
	for range 2 {
		if found, err := known.of(without); found != nil || err == nil || err.Error() != notRead {
			t.Errorf("before the topology is read, got %v, %v", found, err)
		}
	}
	serves := handleOf(true)
	for range 2 {
		found, err := known.of(serves)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spines.Spec, found.Spec); diff != "" {
			t.Errorf("the topology (-want +got):\n%s", diff)
		}
	}
	<-serves.woken
	if without.started != 1 || serves.started != 1 {
		t.Errorf("informers were started %d and %d times, want once for each scheduler", without.started, serves.started)
	}
	refuses := handleOf(true)
	refuses.refuses = errors.New("it is shutting down")
	for range 2 {
		if found, err := known.of(refuses); found != nil || !errors.Is(err, refuses.refuses) {
			t.Errorf("if no informer starts, the topology is %v, %v", found, err)
		}
	}
	if _, err := known.of(serves); err != nil {
		t.Errorf("a scheduler that had read the topology lost it: %v", err)
	}

	other := spines.DeepCopy()
	other.Name = "other"
	named := handleOf(false)
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	t.Cleanup(cluster.Close)
	cluster.Devices().PutTopology(other)
	named.Handle = cluster.Handle()
	if found, err := known.of(named); found != nil || err == nil || !strings.Contains(err.Error(), "ClusterNetworkTopology default, which defines the layers of the network, does not exist") {
		t.Errorf("with only a topology of another name, got %v, %v", found, err)
	}
}

func TestALayerHasFewLabelKeys(t *testing.T) {
	for n, want := range map[int]string{maxLayerKeys: "", maxLayerKeys + 1: fmt.Sprintf(`layer "Spine" has %d label keys, want 1 to %d`, maxLayerKeys+1, maxLayerKeys)} {
		topology := &v1alpha1.ClusterNetworkTopology{}
		topology.Spec.NetworkTopologySpec = []v1alpha1.NetworkTopologySpec{{TopologyLayer: "Spine", LabelKey: slices.Repeat([]string{"key"}, n)}}
		if _, err := layersOf(topology); (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d label keys: got %v, want %s", n, err, want)
		}
	}
}

func TestATopologyHasFewLayers(t *testing.T) {
	for n, want := range map[int]string{maxLayers: "", maxLayers + 1: fmt.Sprintf("found %d layers, want at most %d", maxLayers+1, maxLayers)} {
		topology, parent := &v1alpha1.ClusterNetworkTopology{}, v1alpha1.TopologyLayer("")
		for i := range n {
			layer := v1alpha1.TopologyLayer(fmt.Sprint("l", i))
			topology.Spec.NetworkTopologySpec = append(topology.Spec.NetworkTopologySpec, v1alpha1.NetworkTopologySpec{TopologyLayer: layer, ParentTopologyLayer: parent, LabelKey: []string{"key"}})
			parent = layer
		}
		if layers, err := layersOf(topology); (err == nil) != (want == "") || err == nil && len(layers) != n || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d layers: got %d, %v, want %s", n, len(layers), err, want)
		}
	}
}

// TestPreferredLayersNeedNoPreBind: a gang that only prefers a layer may be in several of its domains, so no pre-bind
// step checks them.
func TestPreferredLayersNeedNoPreBind(t *testing.T) {
	n := &network{layers: []layer{{name: "Spine"}}, asking: map[api.JobID]*gathered{"prefers": {}, "invalid": {must: 1, err: errors.New("no such layer")}, "nodes": {must: 2}}}
	n.addPreBind(func() corelisters.NodeLister { t.Error("a pre-bind step is added"); return nil })
}
