// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
)

// side is a scheduler's allocate action with its plugins.
type side struct {
	name     string
	registry *framework.Registry
	// newAction makes the action anew, which may remember things from session to session.
	newAction func() vcframework.Action
	// conf is the chart's, or what upstream knows of that.
	conf   string
	groups nodeGroups
	// builders are the plugins of upstream's names that are this side's, since upstream's registry has room for one
	// builder of a name.
	builders map[string]vcframework.PluginBuilder
}

const (
	upstreamName = "upstream"
	oursName     = "ours"
)

// newSides returns upstream's side, as its packages registered it, and then ours, which takes some names over.
func newSides() (upstream, ours *side) {
	upstream = &side{name: upstreamName, registry: framework.NewRegistry(), conf: config.UpstreamConf(), groups: hardHyperNode()}
	ours = &side{name: oursName, registry: framework.NewRegistry(), conf: withTakenOver(config.DefaultConf), groups: requiredCluster()}
	specs := app.PluginSpecs()
	upstream.take(specs)
	for _, spec := range specs {
		ours.registry.RegisterPlugin(spec)
	}
	ours.take(specs)
	ours.newAction = func() vcframework.Action {
		ours.registry.RegisterAction(allocate.New())
		action, _ := vcframework.GetAction("allocate")
		return action
	}
	return upstream, ours
}

// take notes whose builders and whose action are registered now.
func (s *side) take(specs []framework.PluginSpec) {
	action, _ := vcframework.GetAction("allocate")
	s.newAction = func() vcframework.Action { return action }
	s.builders = map[string]vcframework.PluginBuilder{}
	for _, spec := range specs {
		if builder, ok := vcframework.GetPluginBuilder(spec.Name); ok {
			s.builders[spec.Name] = builder
		}
	}
}

// use makes upstream's registry build this side's plugins from now on.
func (s *side) use() {
	for name, builder := range s.builders {
		vcframework.RegisterPluginBuilder(name, builder)
	}
}

// confFor is the chart's conf, with the plugins at its end that the work needs.
func (s *side) confFor(sh shape) string {
	conf := s.conf
	if sh.packed {
		conf += "  - name: binpack\n    arguments:\n      binpack.weight: 10\n"
	}
	if sh.clusters > 0 {
		conf += s.groupsFor(sh).plugin
	}
	if sh.devices > 0 {
		conf = s.withDevices(conf)
	}
	return conf
}

// groupsFor is how gangs are asked to lie in one cluster.
func (s *side) groupsFor(sh shape) nodeGroups {
	if sh.hyperNodes {
		return hardHyperNode()
	}
	return s.groups
}

// hardHyperNode is upstream's way to keep a gang in one cluster.
func hardHyperNode() nodeGroups {
	return nodeGroups{
		plugin: "  - name: network-topology-aware\n",
		require: func(podGroup *v1beta1.PodGroup) {
			tier := 1
			podGroup.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
		},
	}
}

// requiredCluster is ours.
func requiredCluster() nodeGroups {
	return nodeGroups{
		plugin: fmt.Sprintf("  - name: ibcluster\n    arguments:\n      ibcluster.levels: [%s, %s, %s]\n", clusterLabel, spineLabel, leafLabel),
		require: func(podGroup *v1beta1.PodGroup) {
			metav1.SetMetaDataAnnotation(&podGroup.ObjectMeta, ibcluster.ModeAnnotation, "required")
		},
	}
}

// The labels of nodes, from the widest group to the narrowest.
const (
	clusterLabel = "ibcluster"
	spineLabel   = "spine"
	leafLabel    = "leaf"
)
