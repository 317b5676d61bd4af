// SPDX-License-Identifier: Apache-2.0

package main

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// side is a scheduler's allocate action with its plugins.
type side struct {
	*insession.Side
	groups insession.NodeGroups
}

// newSides returns upstream's side and ours.
func newSides() (upstream, ours *side) {
	theirs, own := insession.NewSides()
	return &side{theirs, hardHyperNode()}, &side{own, insession.RequiredCluster()}
}

// confFor returns the chart's configuration with the plugins that the work needs at its end.
func (s *side) confFor(sh shape) string {
	conf := s.Conf
	if sh.packed {
		conf += "  - name: binpack\n    arguments:\n      binpack.weight: 10\n"
	}
	if sh.clusters > 0 {
		conf += s.groupsFor(sh).Plugin
	}
	if sh.dra.devices > 0 {
		conf = s.withDevices(conf)
	}
	return conf
}

// groupsFor returns the side's way to place gangs in one cluster.
func (s *side) groupsFor(sh shape) insession.NodeGroups {
	switch {
	case sh.hyperNodes:
		return hardHyperNode()
	case sh.gathered && s.Name == insession.Ours:
		return insession.GatheredInCluster()
	}
	return s.groups
}

// hardHyperNode is upstream's way to keep a gang in one cluster.
func hardHyperNode() insession.NodeGroups {
	return insession.NodeGroups{
		Plugin: "  - name: network-topology-aware\n",
		Require: func(podGroup *v1beta1.PodGroup) {
			tier := 1
			podGroup.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
		},
	}
}
