// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// binds is a plugin that takes over the volume binding of plugin predicates.
var binds = framework.PluginSpec{
	Name:      "binds",
	Arguments: []framework.Argument{{Name: "volumebinding.weight", Type: framework.Int}},
	TakesOver: []framework.Switch{{Plugin: predicatesName, Argument: "predicate.VolumeBindingEnable", Value: false}},
}

// extends is a plugin with the name of upstream's that does the same work and more.
var extends = framework.PluginSpec{Name: deviceshareName, Extends: true}
