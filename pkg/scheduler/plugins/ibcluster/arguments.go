// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// The arguments of the plugin.
const (
	sourceArgument   = "ibcluster.source"
	presetArgument   = "ibcluster.preset"
	levelsArgument   = "ibcluster.levels"
	modeArgument     = "ibcluster.defaultMode"
	triggerArgument  = "ibcluster.triggerResources"
	strategyArgument = "ibcluster.strategy"
	weightArgument   = "ibcluster.weight"
)

// The allowed values of arguments that are not numbers or names.
const (
	fromLabels     = "labels"
	fromHyperNodes = "hypernodes"

	modeRequired  = "required"
	modePreferred = "preferred"
	modeNone      = "none"

	tightest = "tightest"
	emptiest = "emptiest"

	defaultPreset = "ibcluster"
)

var (
	sources    = []string{fromLabels, fromHyperNodes}
	modes      = []string{modeRequired, modePreferred, modeNone}
	strategies = []string{tightest, emptiest}
)

// settings are the plugin's parsed arguments.
type settings struct {
	source string
	// levels are label keys, or tiers of HyperNodes, from the widest to the narrowest. An empty list means all tiers.
	levels      []string
	defaultMode string
	trigger     []v1.ResourceName
	strategy    string
	weight      float64
}

func arguments() []framework.Argument {
	return []framework.Argument{
		{Name: sourceArgument, Type: framework.String, Default: fromLabels, Enum: sources,
			Doc: "Source of the node groups: labels of nodes, or HyperNodes."},
		{Name: presetArgument, Type: framework.String, Default: defaultPreset, Enum: presetNames(),
			Doc: "A known set of label keys to read as levels; see docs/plugins/ibcluster.md."},
		{Name: levelsArgument, Type: framework.Strings,
			Doc: "Label keys from the widest level to the narrowest, instead of a preset; they must differ after the slash. With HyperNodes, numbers or names of tiers; all tiers if absent."},
		{Name: modeArgument, Type: framework.String, Default: modeNone, Enum: modes,
			Doc: "Mode of gangs whose PodGroup sets none: `required` to be in one group, `preferred` to be in one, or `none`."},
		{Name: triggerArgument, Type: framework.Strings, Default: "[]",
			Doc: "Extended resources, such as rdma/hca: a gang that requests one has mode `required` by default."},
		{Name: strategyArgument, Type: framework.String, Default: tightest, Enum: strategies,
			Doc: "Which group is preferred of those that fit a gang: the one with the least free resources, or with the most."},
		{Name: weightArgument, Type: framework.Number, Default: "1",
			Doc: "Weight of the plugin's scores of groups, beside other plugins' scores; 0 to 1000000."},
	}
}

// load parses the arguments. It reports all errors at once.
func load(args framework.Arguments) (settings, error) {
	s := settings{
		source: fromLabels, levels: topology.PresetKeys(defaultPreset), defaultMode: modeNone, strategy: tightest, weight: 1,
	}
	var trigger []string
	errs := []error{
		readOneOf(args, sourceArgument, &s.source, sources),
		readOneOf(args, modeArgument, &s.defaultMode, modes),
		readOneOf(args, strategyArgument, &s.strategy, strategies),
		readWeight(args, &s.weight),
		readStrings(args, triggerArgument, &trigger),
	}
	for _, name := range trigger {
		s.trigger = append(s.trigger, v1.ResourceName(name))
		errs = append(errs, checkTrigger(name))
	}
	errs = append(errs, s.readLevels(args))
	return s, errors.Join(errs...)
}

// readLevels parses the arguments for levels. It must be called after the source of node groups (labels or
// HyperNodes) was parsed.
func (s *settings) readLevels(args framework.Arguments) error {
	_, preset := args[presetArgument]
	_, levels := args[levelsArgument]
	switch {
	case preset && levels:
		return fmt.Errorf("%s and %s: both are given, want one of them", presetArgument, levelsArgument)
	case preset && s.source == fromHyperNodes:
		return fmt.Errorf("%s: presets are sets of label keys, leave it out with %s: %s", presetArgument, sourceArgument, fromHyperNodes)
	case preset:
		name := ""
		if err := readOneOf(args, presetArgument, &name, presetNames()); err != nil {
			return err
		}
		s.levels = topology.PresetKeys(name)
		return nil
	case s.source == fromHyperNodes:
		s.levels = nil
	}
	if err := readStrings(args, levelsArgument, &s.levels); err != nil {
		return err
	}
	if levels && len(s.levels) == 0 {
		return fmt.Errorf("%s: found an empty list, want at least one level", levelsArgument)
	}
	for i, level := range s.levels {
		if s.source == fromLabels {
			if problems := validation.IsQualifiedName(level); len(problems) > 0 {
				return fmt.Errorf("%s: found %q, want a label key: %s", levelsArgument, level, strings.Join(problems, "; "))
			}
		}
		if slices.Contains(s.levels[:i], level) {
			return fmt.Errorf("%s: found %q twice, want each level once", levelsArgument, level)
		}
		for _, wider := range s.levels[:i] {
			if s.source == fromLabels && shortName(wider) == shortName(level) {
				return fmt.Errorf("%s: found %q and %q, want levels that differ after the slash: an annotation may name a level by that part, %q",
					levelsArgument, wider, level, shortName(level))
			}
		}
	}
	return nil
}

// shortName returns the part of a label key after the slash.
func shortName(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// checkTrigger returns an error unless name is the name of an extended resource. Other resources, such as cpu, do not
// show that a pod uses the network.
func checkTrigger(name string) error {
	if problems := validation.IsQualifiedName(name); len(problems) > 0 || !strings.Contains(name, "/") {
		return fmt.Errorf("%s: found %q, want names of extended resources such as \"rdma/hca\"", triggerArgument, name)
	}
	return nil
}

func readOneOf(args framework.Arguments, name string, target *string, accepted []string) error {
	value, ok := args[name]
	if !ok {
		return nil
	}
	text, _ := value.(string)
	if !slices.Contains(accepted, text) {
		return fmt.Errorf("%s: found %s, want %s", name, describe(value), oneOf(accepted))
	}
	*target = text
	return nil
}

func readStrings(args framework.Arguments, name string, target *[]string) error {
	value, ok := args[name]
	if !ok {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s: found %s, want a list of strings", name, describe(value))
	}
	texts := make([]string, len(list))
	for i, item := range list {
		text, ok := item.(string)
		if !ok || text == "" {
			return fmt.Errorf("%s: found %s in the list, want strings that are not empty", name, describe(item))
		}
		texts[i] = text
	}
	*target = texts
	return nil
}

func readWeight(args framework.Arguments, target *float64) error {
	value, ok := args[weightArgument]
	if !ok {
		return nil
	}
	weight := -1.0
	switch n := value.(type) {
	case int:
		weight = float64(n)
	case float64:
		weight = n
	}
	if !(weight >= 0 && weight <= framework.MaxWeight) { // this also rejects NaN
		return fmt.Errorf("%s: found %s, want a number from 0 to %d", weightArgument, describe(value), framework.MaxWeight)
	}
	*target = weight
	return nil
}

func presetNames() []string {
	var names []string
	for _, preset := range topology.Presets() {
		names = append(names, preset.Name)
	}
	return names
}

// oneOf returns the accepted values as text for an error message.
func oneOf(accepted []string) string {
	quoted := make([]string, len(accepted))
	for i, text := range accepted {
		quoted[i] = strconv.Quote(text)
	}
	return strings.Join(quoted, " or ")
}

// describe returns a YAML value as text for an error message.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a mapping"
	default:
		return fmt.Sprintf("%v", v)
	}
}
