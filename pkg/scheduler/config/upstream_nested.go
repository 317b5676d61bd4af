// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/plugins/binpack"
	networktopologyaware "volcano.sh/volcano/pkg/scheduler/plugins/network-topology-aware"
	"volcano.sh/volcano/pkg/scheduler/plugins/rescheduling"
	"volcano.sh/volcano/pkg/scheduler/plugins/tdm"
	"volcano.sh/volcano/pkg/scheduler/plugins/usage"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	reschedulingName = rescheduling.PluginName
	tdmName          = tdm.PluginName
	usageName        = usage.PluginName

	revocableZone = "tdm.revocable-zone."
)

var (
	notNegative = integer(0, math.MaxInt)
	percent     = integer(0, 100)
	// weight is bounded so that sums of products of weights and scores stay within an int64.
	weight = integer(0, framework.MaxWeight)
	// seconds are bounded so that they fit into a time.Duration.
	seconds = integer(0, math.MaxInt32)
)

func tdmArguments() []framework.Argument {
	return []framework.Argument{
		{Name: revocableZone + "*", Type: framework.String, Doc: "Daily window, as `10:00-21:00` in the scheduler's time zone, in which the zone named after the prefix may be used."},
		{Name: "tdm.evict.period", Type: framework.Duration, Default: "1m", Doc: "Shortest time between two rounds of evictions outside the windows."},
	}
}

var tdmValidate = checks{revocableZone + "*": dailyWindow, "tdm.evict.period": positiveDuration}.validate

func dailyWindow(value any) string {
	s, _ := value.(string)
	start, end, ok := strings.Cut(strings.TrimSpace(s), "-")
	for _, clock := range []string{start, end} {
		if _, err := time.Parse("15:04", clock); err != nil {
			ok = false
		}
	}
	if !ok {
		return `a daily window such as "10:00-21:00"`
	}
	return ""
}

func usageArguments() []framework.Argument {
	return []framework.Argument{
		{Name: "usage.weight", Type: framework.Int, Default: "5", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		{Name: "cpu.weight", Type: framework.Int, Default: "1", Doc: "Weight of CPU usage in the score; 0 to 1000000."},
		{Name: "memory.weight", Type: framework.Int, Default: "1", Doc: "Weight of memory usage in the score; 0 to 1000000."},
		{Name: "thresholds", Type: framework.Object, Default: "cpu: 80, mem: 80", Doc: "Usage, in percent, over which a node takes no new pods: `cpu` and `mem`."},
	}
}

var usageValidate = shapes{
	"usage.weight": is(weight), "cpu.weight": is(weight), "memory.weight": is(weight),
	"thresholds": fields(map[string]objectCheck{"cpu": is(percent), "mem": is(percent)}),
}.validate

func reschedulingArguments() []framework.Argument {
	return []framework.Argument{
		{Name: "interval", Type: framework.Duration, Default: "5m", Doc: "Time between two rounds of evictions."},
		{Name: "metricsPeriod", Type: framework.Duration, Default: "5m", Doc: "The period over which usage is averaged."},
		{Name: "strategies", Type: framework.Object, Default: "lowNodeUtilization", Doc: "List of strategies: `name` (`" + rescheduling.DefaultStrategy + "`) and `params` with `thresholds` and `targetThresholds` (percent of `cpu`, `memory`, `pods`)."},
	}
}

var reschedulingValidate = shapes{
	"interval": is(positiveDuration), "metricsPeriod": is(positiveDuration),
	"strategies": items(fields(map[string]objectCheck{
		"name": is(text(rescheduling.DefaultStrategy)),
		"params": fields(map[string]objectCheck{
			"thresholds":                 utilization,
			"targetThresholds":           utilization,
			"thresholdPriorityClassName": is(text()),
			"nodeFit":                    is(boolean),
		}),
	})),
}.validate

var utilization = fields(map[string]objectCheck{
	"cpu": is(percent), "memory": is(percent), "pod": is(percent), "pods": is(percent),
})

func resourceStrategyArguments() []framework.Argument {
	return []framework.Argument{
		{Name: "resourceStrategyFitWeight", Type: framework.Int, Default: "10", Doc: "Weight of the plugin's node score; 0 to 1000000."},
		{Name: "resources", Type: framework.Object, Default: "cpu and memory, LeastAllocated, weight 1", Doc: "Mapping of resource, or prefix ending in `/*`, to `type` (`LeastAllocated` or `MostAllocated`) and `weight`."},
		{Name: "sra", Type: framework.Object, Doc: "Keeps pods off nodes with scarce resources they do not ask for: `enable`, `resources` (separated by commas), `weight`, `resourceWeight` (by resource)."},
		{Name: "proportional", Type: framework.Object, Doc: "Keeps CPU and memory free in proportion to scarce resources: `enable`, `resources` (separated by commas), `resourceProportion` (by `<resource>.cpu` and `<resource>.memory`)."},
	}
}

var resourceStrategyValidate = shapes{
	"resourceStrategyFitWeight": is(weight),
	"resources": resourceNames(each(fields(map[string]objectCheck{
		"type":   is(text("LeastAllocated", "MostAllocated")),
		"weight": is(integer(1, framework.MaxWeight)),
	}))),
	"sra": fields(map[string]objectCheck{
		"enable":         is(boolean),
		"resources":      is(text()),
		"weight":         is(weight),
		"resourceWeight": each(is(weight)),
	}),
	"proportional": fields(map[string]objectCheck{
		"enable":             is(boolean),
		"resources":          is(text()),
		"resourceProportion": each(is(atLeast(0, "a number of 0 or more"))),
	}),
}.validate

// resourceNames returns a check that also checks the keys of a mapping, which are names of resources. It rejects
// patterns that upstream ignores: an asterisk is valid only at the end, after a prefix.
func resourceNames(inner objectCheck) objectCheck {
	return func(path path, value any) []problem {
		problems := inner(path, value)
		m, _ := value.(map[any]any)
		for key := range m {
			name := fmt.Sprint(key)
			if i := strings.Index(name, "*"); i >= 0 && (i != len(name)-1 || i == 0) {
				problems = append(problems, problemf("resource %q of %s must end in its only asterisk, such as \"example.com/*\"", name, path))
			}
		}
		slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.msg, b.msg) })
		return problems
	}
}

var binpackValidate = all(
	checks{
		binpack.BinpackWeight:                weight,
		binpack.BinpackCPU:                   weight,
		binpack.BinpackMemory:                weight,
		binpack.BinpackResourcesPrefix + "*": weight,
	}.validate,
	listedResources(binpack.BinpackResources),
)

var hyperNodeValidate = all(
	checks{
		networktopologyaware.NetworkTopologyWeight:                 weight,
		networktopologyaware.HyperNodeBinPackCPU:                   weight,
		networktopologyaware.HyperNodeBinPackMemory:                weight,
		networktopologyaware.HyperNodeBinPackResourcesPrefix + "*": weight,
		networktopologyaware.HyperNodeBinPackNormalPodFading:       atLeast(0, "a number of 0 or more"),
	}.validate,
	listedResources(networktopologyaware.HyperNodeBinPackResources),
)

// listedResources returns a Validate function for the weights of resources. The parameter list is the name of the
// argument that lists resources. A weight for any other resource is rejected, because upstream ignores such a weight.
func listedResources(list string) func(framework.Arguments) error {
	return func(args framework.Arguments) error {
		listed, _ := args[list].(string)
		resources := strings.Split(listed, ",")
		for i := range resources {
			resources[i] = strings.TrimSpace(resources[i])
		}
		var errs []error
		for name := range args {
			resource, ok := strings.CutPrefix(name, list+".")
			if ok && !slices.Contains(resources, resource) {
				errs = append(errs, &argumentError{name: name, problem: problemf("%s has no effect: add %s to %s", name, resource, list)})
			}
		}
		return errors.Join(errs...)
	}
}
