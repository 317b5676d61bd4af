// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Registry holds this project's plugins and actions and registers them with upstream under their conf names. Upstream's
// registration is global, so a process uses one Registry at a time.
type Registry struct {
	specs   map[string]PluginSpec
	actions map[string]Action

	// Reporter is the PendingReporter of all sessions; nil reports nothing. It is set before the first session opens.
	Reporter PendingReporter
	// categories maps pending reasons to their categories, as the specs of all plugins declare them.
	categories map[string]PendingCategory
	// jobBegins is called each time a session begins to work on a job.
	jobBegins func()
	// switches are the arguments that enable kinds of devices in the first configuration that was built. Later
	// configurations cannot change them. built reports whether a configuration was built.
	built    bool
	switches []string

	mu sync.Mutex
	// views maps upstream's open sessions to this project's sessions.
	views map[*vcframework.Session]*Session
	// opening is the cache of the session that upstream is opening; nil otherwise. profile is the profile of the session
	// that was opened last.
	opening *sessionCache
	profile *Profile
	// pods are the placed pods that the pod lister of the most recently opened session returns.
	pods upstream.PlacedPods
	// last is the session that was opened last.
	last *Session
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{
		specs:      map[string]PluginSpec{},
		actions:    map[string]Action{},
		categories: map[string]PendingCategory{},
		jobBegins:  func() {},
		views:      map[*vcframework.Session]*Session{},
	}
}

// RegisterPlugin registers a plugin. It replaces a plugin of the same name that this project or upstream registered
// before.
func (r *Registry) RegisterPlugin(spec PluginSpec) {
	r.specs[spec.Name] = spec
	maps.Copy(r.categories, spec.PendingCategories)
	adapter := pluginAdapter{registry: r, name: spec.Name}
	vcframework.RegisterPluginBuilder(spec.Name, func(vcframework.Arguments) vcframework.Plugin {
		if spec.ported {
			return &portedAdapter{adapter}
		}
		return &adapter
	})
}

// RegisterAction registers an action. It replaces an action of the same name that this project or upstream registered
// before.
func (r *Registry) RegisterAction(action Action) {
	r.actions[action.Name()] = action
	vcframework.RegisterAction(&actionAdapter{registry: r, action: action})
}

// pausers returns, by name, the actions that are Pausers.
func (r *Registry) pausers() (pausers []ofPlugin[Pauser]) {
	for _, name := range slices.Sorted(maps.Keys(r.actions)) {
		pausers = appendFound(pausers, name, r.actions[name], nil)
	}
	return pausers
}

// Profile is a configuration that is ready to run: its plugins are built.
type Profile struct {
	Actions        []vcframework.Action
	Tiers          []conf.Tier
	Configurations []conf.Configuration
	// TimeDriven reports whether filter results of a plugin may change with time alone.
	TimeDriven bool

	plugins     map[string]Plugin
	pluginOrder []string
	// known reports whether all plugins and actions are known to change placed tasks only by the methods of JobInfo and
	// NodeInfo.
	known        bool
	preBindOrder []string
	// explained are the resources whose shortages a plugin explains.
	explained map[v1.ResourceName]bool
}

// ProfileInput is the configuration from which Build makes a Profile.
type ProfileInput struct {
	Actions        []string
	Tiers          []conf.Tier
	Configurations []conf.Configuration
	// PreBindDisabled names the plugins with `enablePreBind: false`.
	PreBindDisabled map[string]bool
	// Builders build plugins of this project with arguments that are already loaded, by name. Build loads the arguments
	// of plugins without a Builder itself.
	Builders map[string]Builder
}

// Build builds the plugins of a configuration. It fails for an unknown action, for a plugin that rejects its arguments,
// and for a change of the enabled kinds of devices. If it fails, the plugins built so far are closed, and the profile
// in use stays in use.
func (r *Registry) Build(in ProfileInput, h Handle) (_ *Profile, err error) {
	switches := devices.Switches(in.Tiers)
	if r.built {
		if err := devices.Unchanged(r.switches, switches); err != nil {
			return nil, err
		}
	}
	p := &Profile{Tiers: in.Tiers, Configurations: in.Configurations, plugins: map[string]Plugin{}, explained: map[v1.ResourceName]bool{}}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	for _, name := range in.Actions {
		action, ok := vcframework.GetAction(name)
		if !ok {
			return nil, fmt.Errorf("action %q is not registered", name)
		}
		p.Actions = append(p.Actions, action)
	}
	for _, tier := range in.Tiers {
		for _, option := range tier.Plugins {
			p.pluginOrder = append(p.pluginOrder, option.Name)
			if !in.PreBindDisabled[option.Name] {
				p.preBindOrder = append(p.preBindOrder, option.Name)
			}
			if err := r.buildPlugin(p, option, in.Builders[option.Name], h); err != nil {
				return nil, fmt.Errorf("building plugin %q: %w", option.Name, err)
			}
		}
	}
	r.built, r.switches = true, switches
	devices.SwitchOn(in.Tiers)
	upstream.SumPlugins(in.Tiers, func(name string) bool {
		_, ours := r.specs[name]
		return ours
	})
	p.known = r.knows(in)
	return p, nil
}

// buildPlugin adds the plugin to the profile, if it is a plugin of this project. build is nil if the plugin's arguments are
// not loaded yet. A panic of the plugin is an error, so that a reload does not end the scheduler.
func (r *Registry) buildPlugin(p *Profile, option conf.PluginOption, build Builder, h Handle) (err error) {
	spec, ours := r.specs[option.Name]
	if !ours {
		return nil
	}
	defer recoverAs(option.Name, &err)
	if build == nil {
		if build, err = spec.Load(option.Arguments); err != nil {
			return err
		}
	}
	plugin, err := build(h)
	if err != nil {
		return err
	}
	p.plugins[option.Name] = plugin
	p.TimeDriven = p.TimeDriven || spec.TimeDriven
	for _, resource := range spec.ExplainsShortages {
		p.explained[resource] = true
	}
	return nil
}

// Plugin returns the plugin of this project with the name; nil if the profile has none.
func (p *Profile) Plugin(name string) Plugin { return p.plugins[name] }

// opensWithOurs reports whether the first plugin that opens in a session is a plugin of this project.
func (p *Profile) opensWithOurs() bool {
	return len(p.pluginOrder) > 0 && p.plugins[p.pluginOrder[0]] != nil
}

// Close closes the plugins that are Closers, in reverse order. A panic of one plugin does not affect the others.
func (p *Profile) Close() {
	for _, name := range slices.Backward(p.pluginOrder) {
		if closer, ok := p.plugins[name].(Closer); ok {
			closePlugin(name, closer)
		}
	}
}

func closePlugin(name string, closer Closer) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "Closing a plugin panicked", "plugin", name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	closer.Close()
}

// ResourceCounter returns the last plugin in the conf that is a ResourceCounter; nil if there is none. A scheduler has
// one counter.
func (p *Profile) ResourceCounter() accounting.ResourceCounter {
	for _, name := range slices.Backward(p.pluginOrder) {
		if counter, ok := p.plugins[name].(accounting.ResourceCounter); ok {
			return counter
		}
	}
	return nil
}

// Recoverers returns, in conf order, the plugins that are Recoverers.
func (p *Profile) Recoverers() []NamedRecoverer {
	var out []NamedRecoverer
	for _, name := range p.pluginOrder {
		if rec, ok := p.plugins[name].(Recoverer); ok {
			out = append(out, NamedRecoverer{Plugin: name, Recoverer: rec})
		}
	}
	return out
}

// NewRecoverers returns the Recoverers of the profile whose plugins the former profile does not have. It leaves out
// plugins in atWork, which have already recovered since this process began to lead.
func (p *Profile) NewRecoverers(former *Profile, atWork map[string]bool) []NamedRecoverer {
	return slices.DeleteFunc(p.Recoverers(), func(r NamedRecoverer) bool {
		return former.plugins[r.Plugin] != nil || atWork[r.Plugin]
	})
}

// NamedRecoverer is a Recoverer with the name of its plugin.
type NamedRecoverer struct {
	Plugin string
	Recoverer
}
