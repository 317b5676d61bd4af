// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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
	notNegative = is(integer(0, math.MaxInt))
	percent     = is(integer(0, 100))
	// weight is bounded so that sums of products of weights and scores stay within an int64.
	weight = is(integer(0, framework.MaxWeight))
	// seconds are bounded so that they fit into a time.Duration.
	seconds = is(integer(0, math.MaxInt32))
)

func tdmArguments() []argument {
	return []argument{
		arg(revocableZone+"*", framework.String, "", "Daily window, as `10:00-21:00` in the scheduler's time zone, in which the zone named after the prefix may be used.", is(dailyWindow)),
		arg("tdm.evict.period", framework.Duration, "1m", "Shortest time between two rounds of evictions outside the windows.", is(positiveDuration)),
	}
}

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

func usageArguments() []argument {
	return []argument{
		arg("usage.weight", framework.Int, "5", "Weight of the plugin's node score; 0 to 1000000.", weight),
		arg("cpu.weight", framework.Int, "1", "Weight of CPU usage in the score; 0 to 1000000.", weight),
		arg("memory.weight", framework.Int, "1", "Weight of memory usage in the score; 0 to 1000000.", weight),
		arg("thresholds", framework.Object, "cpu: 80, mem: 80", "Usage, in percent, over which a node takes no new pods: `cpu` and `mem`.", fields(map[string]shape{"cpu": percent, "mem": percent})),
	}
}

func reschedulingArguments() []argument {
	return []argument{
		arg("interval", framework.Duration, "5m", "Time between two rounds of evictions.", is(positiveDuration)),
		arg("metricsPeriod", framework.Duration, "5m", "The period over which usage is averaged.", is(positiveDuration)),
		arg("strategies", framework.Object, "lowNodeUtilization", "List of strategies: `name` (`"+rescheduling.DefaultStrategy+"`) and `params` with `thresholds` and `targetThresholds` (percent of `cpu`, `memory`, `pods`).", strategies),
	}
}

var strategies = items(fields(map[string]shape{
	"name": is(text(rescheduling.DefaultStrategy)),
	"params": fields(map[string]shape{
		"thresholds":                 utilization,
		"targetThresholds":           utilization,
		"thresholdPriorityClassName": is(text()),
		"nodeFit":                    is(boolean),
	}),
}))

var utilization = fields(map[string]shape{"cpu": percent, "memory": percent, "pod": percent, "pods": percent})

func resourceStrategyArguments() []argument {
	return []argument{
		arg("resourceStrategyFitWeight", framework.Int, "10", "Weight of the plugin's node score; 0 to 1000000.", weight),
		arg("resources", framework.Object, "cpu and memory, LeastAllocated, weight 1", "Mapping of resource, or prefix ending in `/*`, to `type` (`LeastAllocated` or `MostAllocated`) and `weight`.", resourceStrategies),
		arg("sra", framework.Object, "", "Keeps pods off nodes with scarce resources they do not ask for: `enable`, `resources` (separated by commas), `weight`, `resourceWeight` (by resource).", scarceResources),
		arg("proportional", framework.Object, "", "Keeps CPU and memory free in proportion to scarce resources: `enable`, `resources` (separated by commas), `resourceProportion` (by `<resource>.cpu` and `<resource>.memory`).", proportional),
	}
}

var resourceStrategies = resourceNames(each(fields(map[string]shape{
	"type":   is(text("LeastAllocated", "MostAllocated")),
	"weight": is(integer(1, framework.MaxWeight)),
})))

var scarceResources = fields(map[string]shape{
	"enable": is(boolean), "resources": is(text()), "weight": weight, "resourceWeight": each(weight),
})

var proportional = fields(map[string]shape{
	"enable": is(boolean), "resources": is(text()), "resourceProportion": each(is(atLeast(0, "a number of 0 or more"))),
})

// resourceNames returns a shape that also checks the keys of a mapping, which are names of resources. It rejects
// patterns that upstream ignores: an asterisk is valid only at the end, after a prefix.
func resourceNames(inner shape) shape {
	return func(in inspection, at string, value *yamlNode) []string {
		wrong := inner(in, at, value)
		m, _ := value.value.(map[any]any)
		for key := range m {
			name := fmt.Sprint(key)
			if i := strings.Index(name, "*"); i >= 0 && (i != len(name)-1 || i == 0) {
				wrong = append(wrong, fmt.Sprintf("resource %q of %s must end in its only asterisk, such as \"example.com/*\"", name, at))
			}
		}
		return slices.Sorted(slices.Values(wrong))
	}
}

// listedResources returns a function that checks the weights of resources. The parameter list is the name of the
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
				errs = append(errs, argumentErrorf(name, "%s has no effect: add %s to %s", name, resource, list))
			}
		}
		return errors.Join(errs...)
	}
}
