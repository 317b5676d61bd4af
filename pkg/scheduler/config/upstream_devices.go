// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
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

func deviceshareArguments() []framework.Argument {
	return []framework.Argument{
		{Name: deviceshare.GPUSharingPredicate, Type: framework.Bool, Default: "false", Doc: "Shares a GPU among pods by memory. Read at start, a reload that changes it is rejected. Not together with `" + deviceshare.GPUNumberPredicate + "` or `" + deviceshare.VGPUEnable + "`."},
		{Name: deviceshare.GPUNumberPredicate, Type: framework.Bool, Default: "false", Doc: "Gives whole GPUs by number. Read at start, too. Not together with `" + deviceshare.GPUSharingPredicate + "` or `" + deviceshare.VGPUEnable + "`."},
		{Name: deviceshare.VGPUEnable, Type: framework.Bool, Default: "false", Doc: "Gives slices of a GPU by memory and cores. Read at start, too."},
		{Name: deviceshare.NodeLockEnable, Type: framework.Bool, Default: "false", Doc: "Locks a node while devices are given on it, so that pods take their turn."},
		{Name: deviceshare.AscendMindClusterVNPU, Type: framework.Bool, Default: "false", Doc: "Gives slices of Ascend NPUs through MindCluster. Read at start, too."},
		{Name: deviceshare.AscendHAMiVNPUEnable, Type: framework.Bool, Default: "false", Doc: "Gives slices of Ascend NPUs through HAMi. Read at start, too."},
		{Name: deviceshare.SchedulePolicyArgument, Type: framework.String, Enum: []string{"binpack", "spread"}, Doc: "Whether devices are packed or spread; neither when not given."},
		{Name: deviceshare.ScheduleWeight, Type: framework.Int, Default: "0", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		{Name: deviceshare.KnownGeometriesCMName, Type: framework.String, Default: "volcano-vgpu-device-config", Doc: "Name of the ConfigMap with the device configuration."},
		{Name: deviceshare.KnownGeometriesCMNamespace, Type: framework.String, Default: "kube-system", Doc: "Namespace of that ConfigMap."},
	}
}

var deviceshareValidate = all(checks{deviceshare.ScheduleWeight: weight}.validate, deviceModes)

// deviceModes rejects combinations of arguments that would make upstream end the process.
func deviceModes(args framework.Arguments) error {
	sharing, number, vgpu := false, false, false
	args.GetBool(&sharing, deviceshare.GPUSharingPredicate)
	args.GetBool(&number, deviceshare.GPUNumberPredicate)
	args.GetBool(&vgpu, deviceshare.VGPUEnable)
	var errs []error
	conflict := func(a, b string) {
		errs = append(errs, &argumentError{name: b, problem: problemf("%s conflicts with %s; keep one of them true", b, a)})
	}
	if sharing && number {
		conflict(deviceshare.GPUSharingPredicate, deviceshare.GPUNumberPredicate)
	}
	if sharing && vgpu {
		conflict(deviceshare.GPUSharingPredicate, deviceshare.VGPUEnable)
	}
	if number && vgpu {
		conflict(deviceshare.GPUNumberPredicate, deviceshare.VGPUEnable)
	}
	return errors.Join(errs...)
}

func predicatesArguments() []framework.Argument {
	return []framework.Argument{
		{Name: predicates.NodeAffinityEnable, Type: framework.Bool, Default: "true", Doc: "Filters by node selector and required node affinity."},
		{Name: predicates.NodePortsEnable, Type: framework.Bool, Default: "true", Doc: "Filters by free host ports."},
		{Name: predicates.TaintTolerationEnable, Type: framework.Bool, Default: "true", Doc: "Filters by taints."},
		{Name: predicates.PodAffinityEnable, Type: framework.Bool, Default: "true", Doc: "Filters by required pod affinity and anti-affinity."},
		{Name: predicates.NodeVolumeLimitsEnable, Type: framework.Bool, Default: "true", Doc: "Filters by how many volumes a node can attach."},
		{Name: predicates.VolumeZoneEnable, Type: framework.Bool, Default: "true", Doc: "Filters by the zone of bound volumes."},
		{Name: predicates.PodTopologySpreadEnable, Type: framework.Bool, Default: "true", Doc: "Filters by hard topology spread constraints."},
		{Name: predicates.VolumeBindingEnable, Type: framework.Bool, Default: "true", Doc: "Filters by volume claims, and binds them before the pod."},
		{Name: predicates.DynamicResourceAllocationEnable, Type: framework.Bool, Default: "false", Doc: "Filters by resource claims (DRA), and allocates them."},
		{Name: predicates.CachePredicate, Type: framework.Bool, Default: "false", Doc: "Keeps the verdicts of filters that depend on the pod's template alone."},
		{Name: "volumebinding.weight", Type: framework.Int, Default: "1", Doc: "Weight of the volume capacity score; 0 to 1000000. Upstream counts it in the first session after the start only, later ones take 1."},
		{Name: "volumebinding.bindTimeoutSeconds", Type: framework.Int, Default: "600", Doc: "How long binding the claims of one pod may take, in seconds; 0 or more. The step ends after 660 s whatever the value. Read at start."},
		{Name: "volumebinding.shape", Type: framework.Object, Doc: "Score by used capacity: a list of `utilization` (percent) and `score` (0 to 10), by rising utilization. Read at start. Needs the feature gate `StorageCapacityScoring`."},
		{Name: "dynamicresources.filterTimeoutSeconds", Type: framework.Int, Default: "10", Doc: "How long filtering one node by resource claims may take, in seconds; 0 or more."},
	}
}

var predicatesValidate = shapes{
	"volumebinding.weight":                  is(weight),
	"volumebinding.bindTimeoutSeconds":      is(seconds),
	"dynamicresources.filterTimeoutSeconds": is(seconds),
	"volumebinding.shape": rising("utilization", items(fields(map[string]objectCheck{
		"utilization": is(integer(0, 100)),
		"score":       is(integer(0, 10)),
	}))),
}.validate

// rising returns a check of a list of mappings: it must have at least one item, and the values of the key must
// increase. Upstream ends the process for any other list.
func rising(key string, list objectCheck) objectCheck {
	return func(path path, value any) []problem {
		if problems := list(path, value); len(problems) > 0 {
			return problems
		}
		items := value.([]any)
		if len(items) == 0 {
			return []problem{problemf("%s must have at least one item", path)}
		}
		var problems []problem
		for i, item := range items[1:] {
			former, _ := items[i].(map[any]any)[key].(int) // 0 if the item lacks the key
			if this, _ := item.(map[any]any)[key].(int); this <= former {
				problems = append(problems, problemf("%s must be more than the %d before it, found int %d", path.to(i+1).to(key), former, this))
			}
		}
		return problems
	}
}

func extenderArguments() []framework.Argument {
	verb := func(name, doc string) framework.Argument {
		return framework.Argument{Name: name, Type: framework.String, Doc: "Path under the prefix that is " + doc + "; no call when empty."}
	}
	return []framework.Argument{
		{Name: extender.ExtenderURLPrefix, Type: framework.String, Doc: "Base URL of the service; needed when a path is given."},
		{Name: extender.ExtenderHTTPTimeout, Type: framework.Duration, Default: "1s", Doc: "How long one request may take."},
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
		{Name: extender.ExtenderIgnorable, Type: framework.Bool, Default: "false", Doc: "Whether scheduling goes on without the service when it fails."},
		{Name: extender.ExtenderManagedResources, Type: framework.Strings, Doc: "Only tasks that ask for one of these resources are sent; all when not given."},
	}
}

var extenderValidate = all(
	checks{extender.ExtenderURLPrefix: webURL, extender.ExtenderHTTPTimeout: positiveDuration}.validate,
	func(args framework.Arguments) error {
		if _, ok := args[extender.ExtenderURLPrefix]; ok {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(args)) {
			if strings.HasSuffix(name, "Verb") {
				return &argumentError{name: name, problem: problemf("%s requires %s", name, extender.ExtenderURLPrefix)}
			}
		}
		return nil
	},
)
