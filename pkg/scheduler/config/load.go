// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// load takes the values of the file into the configuration, with upstream's types, and loads the plugins' arguments. The
// file has been checked before, and may have errors: load leaves out values of other types.
func (p *parser) load(value any) {
	file, _ := value.(map[any]any)
	tiers, _ := file["tiers"].([]any)
	p.cfg.Tiers = make([]conf.Tier, len(tiers))
	for i := range tiers {
		tier, _ := tiers[i].(map[any]any)
		list, given := tier["plugins"].([]any)
		if given {
			p.cfg.Tiers[i].Plugins = make([]conf.PluginOption, len(list))
		}
		for j := range list {
			fields, _ := list[j].(map[any]any)
			p.loadPlugin(&p.cfg.Tiers[i].Plugins[j], fields)
		}
	}
	configurations, given := file["configurations"].([]any)
	if given {
		p.cfg.Configurations = make([]conf.Configuration, len(configurations))
	}
	for i := range configurations {
		fields, _ := configurations[i].(map[any]any)
		c := &p.cfg.Configurations[i]
		c.Name, _ = fields["name"].(string)
		if c.Arguments = argumentsOf(fields); c.Name == BindingBlock {
			text, _ := c.Arguments[evictPartiallyBoundAfter].(string)
			p.cfg.EvictPartiallyBoundAfter, _ = time.ParseDuration(text) // 0 for "never"
		}
	}
	if metrics, given := file["metrics"].(map[any]any); given {
		p.cfg.Metrics = map[string]string{}
		for key, value := range metrics {
			name, _ := key.(string)
			p.cfg.Metrics[name], _ = value.(string)
		}
	}
}

// argumentsOf returns the arguments of a plugin, an action or a block; nil if the file gives none.
func argumentsOf(fields map[any]any) framework.Arguments {
	given, ok := fields["arguments"].(map[any]any)
	if !ok {
		return nil
	}
	args := make(framework.Arguments, len(given))
	for key, value := range given {
		name, _ := key.(string)
		args[name] = value
	}
	return args
}

// loadPlugin sets the option of a plugin, and loads the plugin's arguments. An error gets the line of the argument that it
// names, and any other error gets the line of the plugin.
func (p *parser) loadPlugin(option *conf.PluginOption, fields map[any]any) {
	option.Name, _ = fields["name"].(string)
	setSwitches(option, fields)
	plugins.ApplyPluginConfDefaults(option)
	option.Arguments = argumentsOf(fields)
	p.takeOver(option)
	plugin := p.plugins[option.Name]
	if !plugin.loadable {
		return
	}
	defer func() {
		if r := recover(); r != nil { // a panic at a reload must not end the scheduler
			p.add(plugin.line, "%s: checking the arguments panicked: %v", plugin.entry.title(), r)
		}
	}()
	var errs []error
	if plugin.entry.validate != nil {
		errs = flatten(plugin.entry.validate(option.Arguments))
	}
	if plugin.entry.Load != nil {
		build, err := plugin.entry.Load(option.Arguments)
		errs = append(errs, flatten(err)...)
		if build != nil {
			p.cfg.Builders[option.Name] = build
		}
	}
	for _, err := range errs {
		at := plugin.line
		if named, ok := errors.AsType[*argumentError](err); ok {
			if f, there := plugin.fields[named.name]; there {
				at = f.keyLine
			}
		}
		p.add(at, "%s: %s", plugin.entry.title(), strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
}
