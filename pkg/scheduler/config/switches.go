// SPDX-License-Identifier: Apache-2.0

package config

// enablePreBind is a key that each plugin in the configuration may have. The value false disables the plugin's pre-bind
// steps. Upstream does not have this key.
const enablePreBind = "enablePreBind"

// pluginSwitch is a key that each plugin in the configuration may have. The value false disables one kind of the
// plugin's functions, which doc describes.
type pluginSwitch struct {
	key, doc string
	// offByDefault reports whether upstream reads a missing key as false.
	offByDefault bool
}

// pluginSwitches returns all switches of plugins, spelt as in upstream's types of the configuration.
func pluginSwitches() []pluginSwitch {
	return []pluginSwitch{
		{key: enablePreBind, doc: "Its pre-bind steps and their reservations. Not in upstream."},
		{key: "enableJobOrder", doc: "Its order of jobs."},
		{key: "enabledSubJobOrder", doc: "Its order of the sub-groups of a job."},
		{key: "enableTaskOrder", doc: "Its order of tasks."},
		{key: "enableQueueOrder", doc: "Its order of queues, and of queues to take victims from."},
		{key: "EnabledClusterOrder", doc: "Its order of clusters.", offByDefault: true},
		{key: "enableHierarchy", doc: "Its hierarchy of queues (`capacity`, `drf`, `nodegroup`).", offByDefault: true},
		{key: "enableJobReady", doc: "Its vote on when a job is ready to be bound."},
		{key: "enabledSubJobReady", doc: "Its vote on when a sub-group is ready."},
		{key: "enableJobPipelined", doc: "Its vote on when a job may wait for resources being released."},
		{key: "enabledSubJobPipelined", doc: "Its vote on when a sub-group may wait for resources being released."},
		{key: "enableJobEnqueued", doc: "Its vote on the admission of jobs, and its notification of admitted jobs."},
		{key: "enableJobStarving", doc: "Its vote on which jobs are starving."},
		{key: "enableTargetJob", doc: "Its choice of a job to reserve nodes for."},
		{key: "enableReservedNodes", doc: "Its choice of reserved nodes."},
		{key: "enablePredicate", doc: "Its filter of nodes."},
		{key: "enableBestNode", doc: "Its choice among the best nodes."},
		{key: "enableNodeOrder", doc: "Its scores of nodes."},
		{key: "enabledHyperNodeOrder", doc: "Its scores of HyperNodes."},
		{key: "enabledHyperNodeGradient", doc: "Its order in which sets of HyperNodes are tried."},
		{key: "enabledAllocatable", doc: "Its vote on whether a queue may allocate."},
		{key: "enabledOverused", doc: "Its vote on whether a queue is over its share."},
		{key: "enablePreemptable", doc: "Its choice of victims of a preemption."},
		{key: "enablePreemptive", doc: "Its vote on whether a queue may reclaim for a task."},
		{key: "enableReclaimable", doc: "Its choice of victims of a reclaim."},
		{key: "enabledVictim", doc: "Its choice of victims for `shuffle`."},
	}
}
