// SPDX-License-Identifier: Apache-2.0

package framework

import (
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// FromUpstream returns the spec of a plugin that is written against upstream's framework, for builds of the scheduler
// with plugins of their own. As upstream does, it builds a new plugin for each session. The caller adds the spec's
// Doc, and declares the arguments that the plugin reads, or else the conf cannot set any.
func FromUpstream(name string, build vcframework.PluginBuilder) PluginSpec {
	return PluginSpec{
		Name:   name,
		ported: true,
		Load: func(args Arguments) (Builder, error) {
			return func(Handle) (Plugin, error) {
				return &portedPlugin{name: name, build: func() vcframework.Plugin { return build(args) }}, nil
			}, nil
		},
	}
}

// portedPlugin runs a plugin that is written against upstream's framework.
type portedPlugin struct {
	name  string
	build func() vcframework.Plugin
	// open is the plugin as it was built for the open session.
	open vcframework.Plugin
}

func (p *portedPlugin) Name() string { return p.name }

func (p *portedPlugin) OnSessionOpen(ssn *Session) {
	p.open = p.build()
	p.open.OnSessionOpen(ssn.Session)
}

func (p *portedPlugin) OnSessionClose(ssn *Session) {
	p.open.OnSessionClose(ssn.Session)
	p.open = nil
}

// portedAdapter is a portedPlugin as upstream's session calls it.
type portedAdapter struct{ pluginAdapter }

var _ vcframework.BindContextHandler = (*portedAdapter)(nil)

// SetupBindContextExtension implements vcframework.BindContextHandler: the plugin adds what its pre-bind step reads later.
func (a *portedAdapter) SetupBindContextExtension(state *k8sframework.CycleState, bindCtx *vccache.BindContext) {
	if plugin, ok := a.registry.plugin(a.name).(*portedPlugin); ok {
		if handler, ok := plugin.open.(vcframework.BindContextHandler); ok {
			handler.SetupBindContextExtension(state, bindCtx)
		}
	}
}
