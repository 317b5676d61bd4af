// SPDX-License-Identifier: Apache-2.0

package random

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// rooms is a plugin that gives every gang preferred node groups, which cross the boundaries of ibcluster's groups.
type rooms struct {
	framework.NoFilter
	forest *topology.Forest
}

const (
	roomsName = "rooms"
	room      = "room"
)

func roomsSpec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: roomsName,
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return &rooms{}, nil }),
	}
}

func (*rooms) Name() string { return roomsName }

func (r *rooms) OnSessionOpen(ssn *framework.Session) {
	var nodes []*v1.Node
	for _, node := range ssn.NodeList {
		nodes = append(nodes, node.Node)
	}
	r.forest = topology.NewLabels(room).Forest(nodes)
}

func (r *rooms) Placement(*api.JobInfo) (framework.Placement, error) {
	return framework.Placement{NodeGroups: &framework.NodeGroups{Candidates: r.forest.At(0)}}, nil
}

func (*rooms) OnSessionClose(*framework.Session) {}
