// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Config is a valid configuration. It is read-only once parsed.
type Config struct {
	// Actions are the names of the actions of a cycle, in order.
	Actions []string
	// Tiers are the plugins. Keys such as enablePredicate, which the file may leave out, have upstream's defaults.
	Tiers []conf.Tier
	// Configurations are the arguments of actions, and of other entries under `configurations`, by name.
	Configurations []conf.Configuration
	// EvictPartiallyBoundAfter is how long a gang that a crash left partially bound may wait for its other members before
	// its bound members are evicted; 0 means forever.
	EvictPartiallyBoundAfter time.Duration
	// Metrics says where the usage of nodes is read from; empty if usage is not read.
	Metrics map[string]string
	// PreBindDisabled names the plugins whose pre-bind steps are left out.
	PreBindDisabled map[string]bool
	// Builders build those plugins of this project that the file names, by name. They hold the plugins' parsed arguments.
	Builders map[string]framework.Builder
	// Warnings are findings that do not make the configuration invalid.
	Warnings []*Error
	// Default reports whether the file is empty, which selects the built-in configuration.
	Default bool
	// Raw is the text the configuration was parsed from, and Hash the hex SHA-256 of it.
	Raw  []byte
	Hash string
}

// PluginOrder lists the plugins in the order of the conf, tier by tier.
func (c *Config) PluginOrder() []string {
	var names []string
	for _, tier := range c.Tiers {
		for _, plugin := range tier.Plugins {
			names = append(names, plugin.Name)
		}
	}
	return names
}

// builtIn returns the configuration of a scheduler without a configuration file: upstream's, with this project's
// plugins appended.
func (c *Catalogue) builtIn() []byte {
	text := []byte(scheduler.DefaultSchedulerConf)
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		if c.plugins[name].BuiltIn {
			text = fmt.Appendf(text, "  - name: %s\n", name)
		}
	}
	return text
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
