// SPDX-License-Identifier: Apache-2.0

package config

import (
	yaml2 "gopkg.in/yaml.v2"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// enablePreBind is a key that each plugin in the configuration may have. The value false disables the plugin's pre-bind
// steps. Upstream does not have this key.
const enablePreBind = "enablePreBind"

// pluginSwitch is a key that each plugin in the configuration may have. The value false disables one kind of the
// plugin's functions, which Doc describes.
type pluginSwitch struct {
	Key, Doc string
	// OffByDefault reports whether upstream reads a missing key as false.
	OffByDefault bool
}

// setSwitches sets the switches of the plugin that the file has.
func setSwitches(option *conf.PluginOption, fields map[any]any) {
	switches := map[string]bool{}
	for key, value := range fields {
		name, named := key.(string)
		if on, ok := value.(bool); ok && named {
			switches[name] = on
		}
	}
	text, err := yaml2.Marshal(switches)
	if err == nil {
		err = yaml2.Unmarshal(text, option) // enablePreBind has no field
	}
	if err != nil {
		panic(err) // cannot happen, because the values are booleans
	}
}

// pluginSwitches returns all switches of plugins, spelt as in upstream's types of the configuration.
func pluginSwitches() []pluginSwitch {
	return []pluginSwitch{
		{Key: enablePreBind, Doc: "Its pre-bind steps and their reservations. Not in upstream."},
		{Key: "enableJobOrder", Doc: "Its order of jobs."},
		{Key: "enabledSubJobOrder", Doc: "Its order of the sub-groups of a job."},
		{Key: "enableTaskOrder", Doc: "Its order of tasks."},
		{Key: "enableQueueOrder", Doc: "Its order of queues, and of queues to take victims from."},
		{Key: "EnabledClusterOrder", Doc: "Its order of clusters.", OffByDefault: true},
		{Key: "enableHierarchy", Doc: "Its hierarchy of queues (`capacity`, `drf`, `nodegroup`).", OffByDefault: true},
		{Key: "enableJobReady", Doc: "Its vote on when a job is ready to be bound."},
		{Key: "enabledSubJobReady", Doc: "Its vote on when a sub-group is ready."},
		{Key: "enableJobPipelined", Doc: "Its vote on when a job may wait for resources being released."},
		{Key: "enabledSubJobPipelined", Doc: "Its vote on when a sub-group may wait for resources being released."},
		{Key: "enableJobEnqueued", Doc: "Its vote on the admission of jobs, and its notification of admitted jobs."},
		{Key: "enableJobStarving", Doc: "Its vote on which jobs are starving."},
		{Key: "enableTargetJob", Doc: "Its choice of a job to reserve nodes for."},
		{Key: "enableReservedNodes", Doc: "Its choice of reserved nodes."},
		{Key: "enablePredicate", Doc: "Its filter of nodes."},
		{Key: "enableBestNode", Doc: "Its choice among the best nodes."},
		{Key: "enableNodeOrder", Doc: "Its scores of nodes."},
		{Key: "enabledHyperNodeOrder", Doc: "Its scores of HyperNodes."},
		{Key: "enabledHyperNodeGradient", Doc: "Its order in which sets of HyperNodes are tried."},
		{Key: "enabledAllocatable", Doc: "Its vote on whether a queue may allocate."},
		{Key: "enabledOverused", Doc: "Its vote on whether a queue is over its share."},
		{Key: "enablePreemptable", Doc: "Its choice of victims of a preemption."},
		{Key: "enablePreemptive", Doc: "Its vote on whether a queue may reclaim for a task."},
		{Key: "enableReclaimable", Doc: "Its choice of victims of a reclaim."},
		{Key: "enabledVictim", Doc: "Its choice of victims for `shuffle`."},
	}
}
