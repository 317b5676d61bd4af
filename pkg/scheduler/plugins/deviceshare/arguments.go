// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlv2 "gopkg.in/yaml.v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/deviceshare"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// The plugin's arguments that concern Device objects. An argument that Koordinator's plugin also has keeps
// Koordinator's name.
const (
	strategyArgument    = "scoringStrategy"
	noAlignmentArgument = "disableDeviceNUMATopologyAlignment"
	templatesArgument   = "gpuSharedResourceTemplatesConfig"
	unsharedArgument    = "gpuShareUnsupportedModels"
	nicTopologyArgument = "nicTopologyKey"
	adaptionArgument    = "devicePluginAdaption"
)

// The valid types of a scoring strategy in the argument scoringStrategy.
const (
	fragmentationStrategy = "Fragmentation"
	leastAllocated        = "LeastAllocated"
	mostAllocated         = "MostAllocated"
)

const (
	// defaultWeight is the default factor for a node's score by its devices. It is high, so that this score outweighs the
	// scores of other plugins, which add up to some hundreds. A GPU is more expensive than all other resources of a node.
	defaultWeight = 100
	// maxResourceWeight is Kubernetes' limit for the weight of a resource in a scoring strategy.
	maxResourceWeight = 100

	defaultTemplatesNamespace = "koordinator-system"
	defaultTemplatesName      = "gpu-shared-resource-templates"
)

func arguments() []framework.Argument {
	return []framework.Argument{
		{Name: strategyArgument, Type: framework.Object, Default: "{type: Fragmentation, weight: 100}",
			Doc: "How nodes and devices are preferred: `type` is `Fragmentation`, `LeastAllocated` or `MostAllocated`; `resources` is a list of `name` and `weight` (1 to 100) " +
				"for the last two; `weight` multiplies the score of nodes, which is 0 to 100."},
		{Name: noAlignmentArgument, Type: framework.Bool, Default: "false",
			Doc: "Whether the devices of a pod with a NUMA policy may be on other NUMA nodes than its CPUs."},
		{Name: templatesArgument, Type: framework.Object,
			Default: "{configMapNamespace: koordinator-system, configMapName: gpu-shared-resource-templates, matchedResources: [huawei.com/npu-core]}",
			Doc:     "The ConfigMap with the templates for dividing chips, and resource names: a pod that requests one of them gets a template."},
		{Name: unsharedArgument, Type: framework.Object, Doc: "Models of GPUs that are allocated as a whole only: a list of `vendor` and `model`."},
		{Name: nicTopologyArgument, Type: framework.String,
			Doc: "Label of devices that groups NICs with nearby GPUs instead of the PCIe switch, for boards where these differ."},
		{Name: adaptionArgument, Type: framework.Bool, Default: "false",
			Doc: "Whether pods get the annotations that vendors' device plugins read, beside `device-allocated`."},
	}
}

// settings are the plugin's parsed arguments.
type settings struct {
	// policy and backendWeight are the arguments for upstream's ways of sharing devices (backends).
	policy        string
	backendWeight int

	strategy scoringStrategy
	// unaligned reports whether the plugin ignores the NUMA policies of pods when it chooses devices.
	unaligned bool
	templates templatesConfig
	unshared  []model
	// nicTopology is the key of a label of devices that groups NICs with nearby GPUs. If it is empty, NICs and GPUs are
	// grouped by PCIe switch.
	nicTopology string
	adaption    bool
}

// scoringStrategy is the plugin's argument scoringStrategy. It says which nodes and devices are preferred.
type scoringStrategy struct {
	Type      string           `json:"type"`
	Resources []resourceWeight `json:"resources"`
	Weight    *int             `json:"weight"`
}

type resourceWeight struct {
	Name   v1.ResourceName `json:"name"`
	Weight int64           `json:"weight"`
}

// templatesConfig names the ConfigMap with the shared-resource templates. A GPU request that uses one of
// MatchedResources must match a template.
type templatesConfig struct {
	Namespace        string            `json:"configMapNamespace"`
	Name             string            `json:"configMapName"`
	MatchedResources []v1.ResourceName `json:"matchedResources"`
}

type model struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
}

// load parses the plugin's arguments. It reports all errors at once.
func load(args framework.Arguments) (settings, error) {
	s := settings{
		strategy:  scoringStrategy{Type: fragmentationStrategy},
		templates: templatesConfig{defaultTemplatesNamespace, defaultTemplatesName, []v1.ResourceName{allocator.NPUCore.Name()}},
	}
	args.GetString(&s.policy, upstream.SchedulePolicyArgument)
	args.GetInt(&s.backendWeight, upstream.ScheduleWeight)
	args.GetBool(&s.unaligned, noAlignmentArgument)
	args.GetBool(&s.adaption, adaptionArgument)
	args.GetString(&s.nicTopology, nicTopologyArgument)
	errs := []error{
		decode(args, strategyArgument, &s.strategy), decode(args, templatesArgument, &s.templates), decode(args, unsharedArgument, &s.unshared),
		s.checkStrategy(),
	}
	for i, m := range s.unshared {
		if m.Model == "" {
			errs = append(errs, fmt.Errorf("%s[%d]: found no model, want vendor and model", unsharedArgument, i))
		}
	}
	for _, name := range []string{s.templates.Namespace, s.templates.Name} {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, fmt.Errorf("%s: found %q, want the name of a ConfigMap and its namespace: %s", templatesArgument, name, problem))
		}
	}
	if s.nicTopology != "" {
		for _, problem := range validation.IsQualifiedName(s.nicTopology) {
			errs = append(errs, fmt.Errorf("%s: found %q, want the key of a label: %s", nicTopologyArgument, s.nicTopology, problem))
		}
	}
	return s, errors.Join(errs...)
}

// decode decodes the argument with the given name, whose type is Object, into the variable at into. The variable keeps
// its defaults for fields that the argument does not set.
func decode(args framework.Arguments, name string, into any) error {
	value, given := args[name]
	if !given {
		return nil
	}
	text, err := yamlv2.Marshal(value) // the configuration was parsed as YAML, so marshalling restores the text
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		_, reason, found := strings.Cut(err.Error(), "json: ") // without the libraries' names
		if !found {
			reason = err.Error()
		}
		return fmt.Errorf("%s: invalid value %s: %s", name, brief.Value(strings.TrimSpace(string(text))), reason)
	}
	return nil
}

var strategyTypes = []string{fragmentationStrategy, leastAllocated, mostAllocated}

func (s *settings) checkStrategy() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(strategyArgument+format, args...)) }
	if !slices.Contains(strategyTypes, s.strategy.Type) {
		wrong(".type: found %q, want one of %s", s.strategy.Type, strings.Join(strategyTypes, ", "))
	}
	if s.strategy.Type == fragmentationStrategy && len(s.strategy.Resources) > 0 {
		wrong(".resources: has no effect with type %s; remove it", fragmentationStrategy)
	}
	if w := s.strategy.Weight; w != nil && (*w < 0 || *w > framework.MaxWeight) {
		wrong(".weight: found %d, want a weight from 0 to %d", *w, framework.MaxWeight)
	}
	for i, r := range s.strategy.Resources {
		if _, known := allocator.ResourceOf(r.Name); !known {
			wrong(".resources[%d].name: found %q, want a resource of devices, such as %s", i, r.Name, allocator.MemoryRatio.Name())
		}
		if r.Weight < 1 || r.Weight > maxResourceWeight {
			wrong(".resources[%d].weight: found %d, want a weight from 1 to %d", i, r.Weight, maxResourceWeight)
		}
	}
	return errors.Join(errs...)
}

// weight returns the factor for a node's score by its devices.
func (s *scoringStrategy) weight() float64 {
	if s.Weight == nil {
		return defaultWeight
	}
	return float64(*s.Weight)
}
