// SPDX-License-Identifier: Apache-2.0

// Package ported is an example of a plugin that is written against Volcano's framework and runs unchanged in this
// scheduler. Plugin racks keeps all pods in one rack.
package ported

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "racks"

// Label is the label of nodes whose value is the node's rack.
const Label = "example.com/rack"

type racks struct{ rack string }

// New builds the plugin. Volcano's scheduler calls such a function for each session.
func New(args vcframework.Arguments) vcframework.Plugin {
	rack, _ := args["rack"].(string)
	return &racks{rack: rack}
}

func (r *racks) Name() string { return Name }

func (r *racks) OnSessionOpen(ssn *vcframework.Session) {
	ssn.AddPredicateFn(Name, func(task *api.TaskInfo, node *api.NodeInfo) error {
		if node.Node.Labels[Label] != r.rack {
			return api.NewFitError(task, node, "node(s) in another rack")
		}
		return nil
	})
}

func (r *racks) OnSessionClose(*vcframework.Session) {}

// Spec declares the plugin for this scheduler.
func Spec() framework.PluginSpec {
	spec := framework.FromUpstream(Name, New)
	spec.Doc = "Keeps all pods in one rack."
	spec.Arguments = []framework.Argument{{Name: "rack", Type: framework.String, Doc: "The rack of all pods.", Required: true}}
	return spec
}
