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
func upstreamPlugins() []declaration {
	return []declaration{
		{Name: binpack.PluginName, Doc: "Prefers nodes that are fuller already.", Arguments: binpackArguments(), validate: listedResources(binpack.BinpackResources)},
		{Name: capacity.PluginName, Doc: "Shares the cluster among queues by their `deserved`, `guarantee` and `capability`; with `enableHierarchy`, along the tree of queues. Not together with `proportion`."},
		{Name: cdp.PluginName, Doc: "Protects a pod from eviction for the cool-down time its label or annotation gives."},
		{Name: conformance.PluginName, Doc: "Protects system-critical pods and the pods of kube-system from eviction."},
		{Name: deviceshareName, Doc: "Shares GPUs and NPUs among pods, by upstream's device backends.", Arguments: deviceshareArguments(), validate: deviceModes},
		{Name: drf.PluginName, Doc: "Orders jobs by dominant resource share; with `enableHierarchy`, queues along their hierarchy."},
		{Name: extenderName, Doc: "Asks an HTTP service at chosen points of the session.", Arguments: extenderArguments(), validate: needsURL},
		{Name: gang.PluginName, Doc: "Schedules a job only when its minimum of members has room, and evicts none below it."},
		{Name: networktopologyaware.PluginName, Doc: "Places a job within near HyperNodes and packs HyperNodes.", Arguments: hyperNodeArguments(), validate: listedResources(networktopologyaware.HyperNodeBinPackResources)},
		{Name: nodegroup.PluginName, Doc: "Binds queues to groups of nodes by the queue's affinity; with `enableHierarchy`, a queue without one takes its parent's.", Arguments: []argument{
			arg("strict", framework.Bool, "true", "Whether a queue without affinity may use no node at all; when false it may use the nodes that belong to no group.", nil),
		}},
		{Name: nodeorder.PluginName, Doc: "Scores nodes with kube-scheduler's scoring plugins.", Arguments: nodeorderArguments()},
		{Name: numaaware.PluginName, Doc: "Places pods by the CPU topology of nodes.", Arguments: []argument{
			arg(numaaware.NumaTopoWeight, framework.Int, "1", "Weight of the plugin's node score; 0 to 1000000.", weight),
		}},
		{Name: overcommit.PluginName, Doc: "Admits jobs up to a multiple of the cluster's resources.", Arguments: []argument{
			arg("overcommit-factor", framework.Number, "1.2", "The multiple of the cluster's resources that all jobs may hold and an admitted job ask for, and that the admitted jobs of one namespace may ask for together; 1 or more.", is(atLeast(1, "a number of 1 or more"))),
		}},
		{Name: pdb.PluginName, Doc: "Evicts no pod that a PodDisruptionBudget protects."},
		{Name: predicatesName, Doc: "Filters nodes with kube-scheduler's filter plugins.", Arguments: predicatesArguments()},
		{Name: priority.PluginName, Doc: "Orders jobs and tasks by priority, and lets the higher preempt the lower."},
		{Name: proportion.PluginName, Doc: "Shares the cluster among queues by weight. Not together with `capacity`, nor with a `drf` that has `enableHierarchy`."},
		{Name: reschedulingName, Doc: "Picks pods to evict for a better spread; the `shuffle` action evicts them.", Arguments: reschedulingArguments()},
		{Name: resourcestrategyfit.PluginName, Doc: "Scores nodes resource by resource, packing some and spreading others.", Arguments: resourceStrategyArguments()},
		{Name: resourcequota.PluginName, Doc: "Admits a job only when its namespace's ResourceQuota has room for its minimum."},
		{Name: sla.PluginName, Doc: "Puts jobs first that have waited too long.", Arguments: []argument{
			arg(sla.JobWaitingTime, framework.Duration, "", "How long a job may wait before it is put first; a job's own annotation overrides it.", is(positiveDuration)),
		}},
		{Name: tasktopology.PluginName, Doc: "Places tasks of a job together or apart by the job's annotations.", Arguments: []argument{
			arg(tasktopology.PluginWeight, framework.Int, "1", "Weight of the plugin's node score; 0 to 1000000.", weight),
		}},
		{Name: tdmName, Doc: "Uses revocable nodes within daily time windows.", Arguments: tdmArguments()},
		{Name: usageName, Doc: "Filters and scores nodes by measured CPU and memory usage; needs the `metrics` block.", Arguments: usageArguments()},
	}
}

func binpackArguments() []argument {
	return []argument{
		arg(binpack.BinpackWeight, framework.Int, "1", "Weight of the plugin's node score; 0 to 1000000.", weight),
		arg(binpack.BinpackCPU, framework.Int, "1", "Weight of CPU in the score; 0 to 1000000.", weight),
		arg(binpack.BinpackMemory, framework.Int, "1", "Weight of memory in the score; 0 to 1000000.", weight),
		arg(binpack.BinpackResources, framework.String, "", "Further resources in the score, separated by commas.", nil),
		arg(binpack.BinpackResourcesPrefix+"*", framework.Int, "1", "Weight of the resource named after the prefix, which `"+binpack.BinpackResources+"` must list; 0 to 1000000.", weight),
	}
}

func hyperNodeArguments() []argument {
	return []argument{
		arg(networktopologyaware.NetworkTopologyWeight, framework.Int, "1", "Weight of the plugin's scores; 0 to 1000000.", weight),
		arg(networktopologyaware.HyperNodeBinPackCPU, framework.Int, "1", "Weight of CPU in the packing score of a HyperNode; 0 to 1000000.", weight),
		arg(networktopologyaware.HyperNodeBinPackMemory, framework.Int, "1", "Weight of memory in the packing score of a HyperNode; 0 to 1000000.", weight),
		arg(networktopologyaware.HyperNodeBinPackResources, framework.String, "", "Further resources in the packing score, separated by commas.", nil),
		arg(networktopologyaware.HyperNodeBinPackResourcesPrefix+"*", framework.Int, "1", "Weight of the resource named after the prefix, which `"+networktopologyaware.HyperNodeBinPackResources+"` must list; 0 to 1000000.", weight),
		arg(networktopologyaware.HyperNodeBinPackNormalPodEnable, framework.Bool, "true", "Whether pods without a network topology are packed by HyperNode as well.", nil),
		arg(networktopologyaware.HyperNodeBinPackNormalPodFading, framework.Number, "0.8", "Factor between the weights of a tier and the tier below it for such pods; with 0 only the lowest tier counts.", is(atLeast(0, "a number of 0 or more"))),
	}
}

func nodeorderArguments() []argument {
	return []argument{
		arg(nodeorder.LeastRequestedWeight, framework.Int, "1", "Weight of having much left unrequested.", weight),
		arg(nodeorder.MostRequestedWeight, framework.Int, "0", "Weight of having little left unrequested.", weight),
		arg(nodeorder.NodeAffinityWeight, framework.Int, "2", "Weight of preferred node affinity.", weight),
		arg(nodeorder.PodAffinityWeight, framework.Int, "2", "Weight of preferred pod affinity and anti-affinity.", weight),
		arg(nodeorder.BalancedResourceWeight, framework.Int, "1", "Weight of the score for balanced use of a node's CPU and memory.", weight),
		arg(nodeorder.TaintTolerationWeight, framework.Int, "3", "Weight of having few `PreferNoSchedule` taints that the pod does not tolerate.", weight),
		arg(nodeorder.ImageLocalityWeight, framework.Int, "1", "Weight of having the pod's images.", weight),
		arg(nodeorder.PodTopologySpreadWeight, framework.Int, "2", "Weight of soft topology spread constraints.", weight),
	}
}
