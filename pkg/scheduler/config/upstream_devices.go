// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/plugins/deviceshare"
	"volcano.sh/volcano/pkg/scheduler/plugins/extender"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	deviceshareName = deviceshare.PluginName
	extenderName    = extender.PluginName
	predicatesName  = predicates.PluginName
)

func deviceshareArguments() []argument {
	return []argument{
		arg(deviceshare.GPUSharingPredicate, framework.Bool, "false", "Shares a GPU among pods by memory. Read at start, a reload that changes it is rejected. Not together with `"+deviceshare.GPUNumberPredicate+"` or `"+deviceshare.VGPUEnable+"`.", nil),
		arg(deviceshare.GPUNumberPredicate, framework.Bool, "false", "Gives whole GPUs by number. Read at start, too. Not together with `"+deviceshare.GPUSharingPredicate+"` or `"+deviceshare.VGPUEnable+"`.", nil),
		arg(deviceshare.VGPUEnable, framework.Bool, "false", "Gives slices of a GPU by memory and cores. Read at start, too.", nil),
		arg(deviceshare.NodeLockEnable, framework.Bool, "false", "Locks a node while devices are given on it, so that pods take their turn.", nil),
		arg(deviceshare.AscendMindClusterVNPU, framework.Bool, "false", "Gives slices of Ascend NPUs through MindCluster. Read at start, too.", nil),
		arg(deviceshare.AscendHAMiVNPUEnable, framework.Bool, "false", "Gives slices of Ascend NPUs through HAMi. Read at start, too.", nil),
		{Argument: framework.Argument{Name: deviceshare.SchedulePolicyArgument, Type: framework.String, Enum: []string{"binpack", "spread"}, Doc: "Whether devices are packed or spread; neither when not given."}},
		arg(deviceshare.ScheduleWeight, framework.Int, "0", "Weight of the plugin's node score; 0 to 1000000.", weight),
		arg(deviceshare.KnownGeometriesCMName, framework.String, "volcano-vgpu-device-config", "Name of the ConfigMap with the device configuration.", nil),
		arg(deviceshare.KnownGeometriesCMNamespace, framework.String, "kube-system", "Namespace of that ConfigMap.", nil),
	}
}

// deviceModes rejects combinations of arguments that would make upstream end the process.
func deviceModes(args framework.Arguments) error {
	sharing, number, vgpu := false, false, false
	args.GetBool(&sharing, deviceshare.GPUSharingPredicate)
	args.GetBool(&number, deviceshare.GPUNumberPredicate)
	args.GetBool(&vgpu, deviceshare.VGPUEnable)
	var errs []error
	conflict := func(both bool, a, b string) {
		if both {
			errs = append(errs, argumentErrorf(b, "%s conflicts with %s; keep one of them true", b, a))
		}
	}
	conflict(sharing && number, deviceshare.GPUSharingPredicate, deviceshare.GPUNumberPredicate)
	conflict(sharing && vgpu, deviceshare.GPUSharingPredicate, deviceshare.VGPUEnable)
	conflict(number && vgpu, deviceshare.GPUNumberPredicate, deviceshare.VGPUEnable)
	return errors.Join(errs...)
}

func predicatesArguments() []argument {
	return []argument{
		arg(predicates.NodeAffinityEnable, framework.Bool, "true", "Filters by node selector and required node affinity.", nil),
		arg(predicates.NodePortsEnable, framework.Bool, "true", "Filters by free host ports.", nil),
		arg(predicates.TaintTolerationEnable, framework.Bool, "true", "Filters by taints.", nil),
		arg(predicates.PodAffinityEnable, framework.Bool, "true", "Filters by required pod affinity and anti-affinity.", nil),
		arg(predicates.NodeVolumeLimitsEnable, framework.Bool, "true", "Filters by how many volumes a node can attach.", nil),
		arg(predicates.VolumeZoneEnable, framework.Bool, "true", "Filters by the zone of bound volumes.", nil),
		arg(predicates.PodTopologySpreadEnable, framework.Bool, "true", "Filters by hard topology spread constraints.", nil),
		arg(predicates.VolumeBindingEnable, framework.Bool, "true", "Filters by volume claims, and binds them before the pod.", nil),
		arg(predicates.DynamicResourceAllocationEnable, framework.Bool, "false", "Filters by resource claims (DRA), and allocates them.", nil),
		arg(predicates.CachePredicate, framework.Bool, "false", "Keeps the verdicts of filters that depend on the pod's template alone.", nil),
		arg("volumebinding.weight", framework.Int, "1", "Weight of the volume capacity score; 0 to 1000000. Upstream counts it in the first session after the start only, later ones take 1.", weight),
		arg("volumebinding.bindTimeoutSeconds", framework.Int, "600", "How long binding the claims of one pod may take, in seconds; 0 or more. The step ends after 660 s whatever the value. Read at start.", seconds),
		arg("volumebinding.shape", framework.Object, "", "Score by used capacity: a list of `utilization` (percent) and `score` (0 to 10), by rising utilization. Read at start. Needs the feature gate `StorageCapacityScoring`.", rising("utilization", items(fields(map[string]shape{"utilization": percent, "score": is(integer(0, 10))})))),
		arg("dynamicresources.filterTimeoutSeconds", framework.Int, "10", "How long filtering one node by resource claims may take, in seconds; 0 or more.", seconds),
	}
}

// rising returns a shape of a list of mappings: it must have at least one item, and the values of the key must
// increase. Upstream ends the process for any other list.
func rising(key string, list shape) shape {
	return func(in inspection, at string, value *yamlNode) []string {
		if wrong := list(in, at, value); len(wrong) > 0 {
			return wrong
		}
		items := value.value.([]any)
		if len(items) == 0 {
			return []string{at + " must have at least one item"}
		}
		var wrong []string
		for i, item := range items[1:] {
			former, _ := items[i].(map[any]any)[key].(int) // 0 if the item lacks the key
			if this, _ := item.(map[any]any)[key].(int); this <= former {
				wrong = append(wrong, fmt.Sprintf("%s[%d].%s must be more than the %d before it, found int %d", at, i+1, key, former, this))
			}
		}
		return wrong
	}
}

func extenderArguments() []argument {
	verb := func(name, doc string) argument {
		return arg(name, framework.String, "", "Path under the prefix that is "+doc+"; no call when empty.", nil)
	}
	return []argument{
		arg(extender.ExtenderURLPrefix, framework.String, "", "Base URL of the service; needed when a path is given.", is(webURL)),
		arg(extender.ExtenderHTTPTimeout, framework.Duration, "1s", "How long one request may take.", is(positiveDuration)),
		verb(extender.ExtenderOnSessionOpenVerb, "called when a session opens"),
		verb(extender.ExtenderOnSessionCloseVerb, "called when a session closes"),
		verb(extender.ExtenderPredicateVerb, "asked whether a task fits a node"),
		verb(extender.ExtenderPrioritizeVerb, "asked to score nodes"),
		verb(extender.ExtenderPreemptableVerb, "asked for victims of a preemption"),
		verb(extender.ExtenderReclaimableVerb, "asked for victims of a reclaim"),
		verb(extender.ExtenderQueueOverusedVerb, "asked whether a queue uses more than its share"),
		verb(extender.ExtenderJobEnqueueableVerb, "asked whether a job may be admitted"),
		verb(extender.ExtenderJobReadyVerb, "asked whether a job is ready"),
		verb(extender.ExtenderAllocateFuncVerb, "called when a task is allocated"),
		verb(extender.ExtenderDeallocateFuncVerb, "called when a task is deallocated"),
		arg(extender.ExtenderIgnorable, framework.Bool, "false", "Whether scheduling goes on without the service when it fails.", nil),
		arg(extender.ExtenderManagedResources, framework.Strings, "", "Only tasks that ask for one of these resources are sent; all when not given.", nil),
	}
}

// needsURL rejects paths without the URL that they belong to.
func needsURL(args framework.Arguments) error {
	if _, ok := args[extender.ExtenderURLPrefix]; ok {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if strings.HasSuffix(name, "Verb") {
			return argumentErrorf(name, "%s requires %s", name, extender.ExtenderURLPrefix)
		}
	}
	return nil
}
