// SPDX-License-Identifier: Apache-2.0

package config

import (
	"volcano.sh/volcano/pkg/scheduler/plugins/binpack"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/cdp"
	"volcano.sh/volcano/pkg/scheduler/plugins/conformance"
	"volcano.sh/volcano/pkg/scheduler/plugins/drf"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	networktopologyaware "volcano.sh/volcano/pkg/scheduler/plugins/network-topology-aware"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodegroup"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware"
	"volcano.sh/volcano/pkg/scheduler/plugins/overcommit"
	"volcano.sh/volcano/pkg/scheduler/plugins/pdb"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"
	"volcano.sh/volcano/pkg/scheduler/plugins/resourcequota"
	"volcano.sh/volcano/pkg/scheduler/plugins/sla"
	tasktopology "volcano.sh/volcano/pkg/scheduler/plugins/task-topology"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// upstreamPlugins returns every plugin of upstream v1.14.1 (pkg/scheduler/plugins), with the arguments that its source
// reads.
func upstreamPlugins() []framework.PluginSpec {
	return []framework.PluginSpec{
		{Name: binpack.PluginName, Doc: "Prefers nodes that are fuller already.", Arguments: binpackArguments(), Validate: binpackValidate},
		{Name: capacity.PluginName, Doc: "Shares the cluster among queues by their `deserved`, `guarantee` and `capability`; with `enableHierarchy`, along the tree of queues. Not together with `proportion`."},
		{Name: cdp.PluginName, Doc: "Protects a pod from eviction for the cool-down time its label or annotation gives."},
		{Name: conformance.PluginName, Doc: "Protects system-critical pods and the pods of kube-system from eviction."},
		{Name: deviceshareName, Doc: "Shares GPUs and NPUs among pods, by upstream's device backends.", Arguments: deviceshareArguments(), Validate: deviceshareValidate},
		{Name: drf.PluginName, Doc: "Orders jobs by dominant resource share; with `enableHierarchy`, queues along their hierarchy."},
		{Name: extenderName, Doc: "Asks an HTTP service at chosen points of the session.", Arguments: extenderArguments(), Validate: extenderValidate},
		{Name: gang.PluginName, Doc: "Schedules a job only when its minimum of members has room, and evicts none below it."},
		{Name: networktopologyaware.PluginName, Doc: "Places a job within near HyperNodes and packs HyperNodes.", Arguments: hyperNodeArguments(), Validate: hyperNodeValidate},
		{Name: nodegroup.PluginName, Doc: "Binds queues to groups of nodes by the queue's affinity; with `enableHierarchy`, a queue without one takes its parent's.", Arguments: []framework.Argument{
			{Name: "strict", Type: framework.Bool, Default: "true", Doc: "Whether a queue without affinity may use no node at all; when false it may use the nodes that belong to no group."},
		}},
		{Name: nodeorder.PluginName, Doc: "Scores nodes with kube-scheduler's scoring plugins.", Arguments: nodeorderArguments(), Validate: nodeorderValidate},
		{Name: numaaware.PluginName, Doc: "Places pods by the CPU topology of nodes.", Arguments: []framework.Argument{
			{Name: numaaware.NumaTopoWeight, Type: framework.Int, Default: "1", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		}, Validate: checks{numaaware.NumaTopoWeight: weight}.validate},
		{Name: overcommit.PluginName, Doc: "Admits jobs up to a multiple of the cluster's resources.", Arguments: []framework.Argument{
			{Name: "overcommit-factor", Type: framework.Number, Default: "1.2", Doc: "The multiple of the cluster's resources that all jobs may hold and an admitted job ask for, and that the admitted jobs of one namespace may ask for together; 1 or more."},
		}, Validate: checks{"overcommit-factor": atLeast(1, "a number of 1 or more")}.validate},
		{Name: pdb.PluginName, Doc: "Evicts no pod that a PodDisruptionBudget protects."},
		{Name: predicatesName, Doc: "Filters nodes with kube-scheduler's filter plugins.", Arguments: predicatesArguments(), Validate: predicatesValidate},
		{Name: priority.PluginName, Doc: "Orders jobs and tasks by priority, and lets the higher preempt the lower."},
		{Name: proportion.PluginName, Doc: "Shares the cluster among queues by weight. Not together with `capacity`, nor with a `drf` that has `enableHierarchy`."},
		{Name: reschedulingName, Doc: "Picks pods to evict for a better spread; the `shuffle` action evicts them.", Arguments: reschedulingArguments(), Validate: reschedulingValidate},
		{Name: resourcestrategyfit.PluginName, Doc: "Scores nodes resource by resource, packing some and spreading others.", Arguments: resourceStrategyArguments(), Validate: resourceStrategyValidate},
		{Name: resourcequota.PluginName, Doc: "Admits a job only when its namespace's ResourceQuota has room for its minimum."},
		{Name: sla.PluginName, Doc: "Puts jobs first that have waited too long.", Arguments: []framework.Argument{
			{Name: sla.JobWaitingTime, Type: framework.Duration, Doc: "How long a job may wait before it is put first; a job's own annotation overrides it."},
		}, Validate: checks{sla.JobWaitingTime: positiveDuration}.validate},
		{Name: tasktopology.PluginName, Doc: "Places tasks of a job together or apart by the job's annotations.", Arguments: []framework.Argument{
			{Name: tasktopology.PluginWeight, Type: framework.Int, Default: "1", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		}, Validate: checks{tasktopology.PluginWeight: weight}.validate},
		{Name: tdmName, Doc: "Uses revocable nodes within daily time windows.", Arguments: tdmArguments(), Validate: tdmValidate},
		{Name: usageName, Doc: "Filters and scores nodes by measured CPU and memory usage; needs the `metrics` block.", Arguments: usageArguments(), Validate: usageValidate},
	}
}

func binpackArguments() []framework.Argument {
	return []framework.Argument{
		{Name: binpack.BinpackWeight, Type: framework.Int, Default: "1", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		{Name: binpack.BinpackCPU, Type: framework.Int, Default: "1", Doc: "Weight of CPU in the score; 0 to 1000000."},
		{Name: binpack.BinpackMemory, Type: framework.Int, Default: "1", Doc: "Weight of memory in the score; 0 to 1000000."},
		{Name: binpack.BinpackResources, Type: framework.String, Doc: "Further resources in the score, separated by commas."},
		{Name: binpack.BinpackResourcesPrefix + "*", Type: framework.Int, Default: "1", Doc: "Weight of the resource named after the prefix, which `" + binpack.BinpackResources + "` must list; 0 to 1000000."},
	}
}

func hyperNodeArguments() []framework.Argument {
	return []framework.Argument{
		{Name: networktopologyaware.NetworkTopologyWeight, Type: framework.Int, Default: "1", Doc: "Weight of the plugin's scores; 0 to 1000000."},
		{Name: networktopologyaware.HyperNodeBinPackCPU, Type: framework.Int, Default: "1", Doc: "Weight of CPU in the packing score of a HyperNode; 0 to 1000000."},
		{Name: networktopologyaware.HyperNodeBinPackMemory, Type: framework.Int, Default: "1", Doc: "Weight of memory in the packing score of a HyperNode; 0 to 1000000."},
		{Name: networktopologyaware.HyperNodeBinPackResources, Type: framework.String, Doc: "Further resources in the packing score, separated by commas."},
		{Name: networktopologyaware.HyperNodeBinPackResourcesPrefix + "*", Type: framework.Int, Default: "1", Doc: "Weight of the resource named after the prefix, which `" + networktopologyaware.HyperNodeBinPackResources + "` must list; 0 to 1000000."},
		{Name: networktopologyaware.HyperNodeBinPackNormalPodEnable, Type: framework.Bool, Default: "true", Doc: "Whether pods without a network topology are packed by HyperNode as well."},
		{Name: networktopologyaware.HyperNodeBinPackNormalPodFading, Type: framework.Number, Default: "0.8", Doc: "Factor between the weights of a tier and the tier below it for such pods; with 0 only the lowest tier counts."},
	}
}

func nodeorderArguments() []framework.Argument {
	return []framework.Argument{
		{Name: nodeorder.LeastRequestedWeight, Type: framework.Int, Default: "1", Doc: "Weight of having much left unrequested."},
		{Name: nodeorder.MostRequestedWeight, Type: framework.Int, Default: "0", Doc: "Weight of having little left unrequested."},
		{Name: nodeorder.NodeAffinityWeight, Type: framework.Int, Default: "2", Doc: "Weight of preferred node affinity."},
		{Name: nodeorder.PodAffinityWeight, Type: framework.Int, Default: "2", Doc: "Weight of preferred pod affinity and anti-affinity."},
		{Name: nodeorder.BalancedResourceWeight, Type: framework.Int, Default: "1", Doc: "Weight of the score for balanced use of a node's CPU and memory."},
		{Name: nodeorder.TaintTolerationWeight, Type: framework.Int, Default: "3", Doc: "Weight of having few `PreferNoSchedule` taints that the pod does not tolerate."},
		{Name: nodeorder.ImageLocalityWeight, Type: framework.Int, Default: "1", Doc: "Weight of having the pod's images."},
		{Name: nodeorder.PodTopologySpreadWeight, Type: framework.Int, Default: "2", Doc: "Weight of soft topology spread constraints."},
	}
}

var nodeorderValidate = checks{
	nodeorder.LeastRequestedWeight:    weight,
	nodeorder.MostRequestedWeight:     weight,
	nodeorder.NodeAffinityWeight:      weight,
	nodeorder.PodAffinityWeight:       weight,
	nodeorder.BalancedResourceWeight:  weight,
	nodeorder.TaintTolerationWeight:   weight,
	nodeorder.ImageLocalityWeight:     weight,
	nodeorder.PodTopologySpreadWeight: weight,
}.validate
