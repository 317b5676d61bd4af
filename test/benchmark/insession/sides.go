// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"strings"

	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Side is a scheduler's allocate action with its plugins.
type Side struct {
	Name     string
	Registry *framework.Registry
	// NewAction returns a new action, since an action may have a cache across sessions.
	NewAction func() vcframework.Action
	// Conf is the chart's configuration, or the part of it that upstream supports.
	Conf string
	// builders are this side's plugins that have names of upstream's plugins, since upstream's registry has room for
	// one builder per name.
	builders map[string]vcframework.PluginBuilder
}

// The names of the sides.
const (
	Upstream = "upstream"
	Ours     = "ours"
)

// NewSides returns upstream's side, as its packages registered it, and then ours, which takes over some names.
func NewSides() (upstream, ours *Side) {
	upstream = &Side{Name: Upstream, Registry: framework.NewRegistry(), Conf: config.UpstreamConf()}
	ours = &Side{Name: Ours, Registry: framework.NewRegistry(), Conf: WithTakenOver(config.DefaultConf)}
	specs := app.PluginSpecs()
	upstream.take(specs)
	for _, spec := range specs {
		ours.Registry.RegisterPlugin(spec)
	}
	ours.take(specs)
	ours.NewAction = func() vcframework.Action {
		ours.Registry.RegisterAction(allocate.New(allocate.WithAttemptLimit()))
		action, _ := vcframework.GetAction("allocate")
		return action
	}
	return upstream, ours
}

// take records the builders and the action that are registered now.
func (s *Side) take(specs []framework.PluginSpec) {
	action, _ := vcframework.GetAction("allocate")
	s.NewAction = func() vcframework.Action { return action }
	s.builders = map[string]vcframework.PluginBuilder{}
	for _, spec := range specs {
		if builder, ok := vcframework.GetPluginBuilder(spec.Name); ok {
			s.builders[spec.Name] = builder
		}
	}
}

// Use makes upstream's registry build this side's plugins from now on.
func (s *Side) Use() {
	for name, builder := range s.builders {
		vcframework.RegisterPluginBuilder(name, builder)
	}
}

// WithTakenOver returns the chart's configuration as package config changes it: our plugin for volumes takes over
// from predicates.
func WithTakenOver(conf string) string {
	const predicates = "  - name: predicates\n"
	return strings.Replace(conf, predicates, predicates+"    arguments:\n      predicate.VolumeBindingEnable: false\n", 1)
}
