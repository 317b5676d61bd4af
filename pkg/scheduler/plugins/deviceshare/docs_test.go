// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestDocumentedExample: the page's example is a valid configuration, with every argument about Device objects at its default.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/deviceshare.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	parsed, err := config.Parse(example, config.NewCatalogue(Spec()))
	if err != nil {
		t.Fatal(err)
	}
	byDefault, err := load(framework.Arguments{})
	if err != nil {
		t.Fatal(err)
	}
	weight := int(defaultWeight)
	byDefault.strategy.Weight, byDefault.unshared = &weight, []model{}
	for _, tier := range parsed.Tiers {
		for _, option := range tier.Plugins {
			if option.Name != Name {
				continue
			}
			got, err := load(option.Arguments)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, byDefault) {
				t.Errorf("found %+v, want %+v", got, byDefault)
			}
			if len(option.Arguments) != len(arguments()) {
				t.Errorf("the example has %d arguments, want all %d", len(option.Arguments), len(arguments()))
			}
			return
		}
	}
	t.Error("the example does not name the plugin")
}

// TestArguments: what cannot be is refused, with what would be right.
func TestArguments(t *testing.T) {
	tests := map[string]struct {
		conf string
		want string
	}{
		"nothing":                 {"", ""},
		"upstream's":              {"deviceshare.VGPUEnable: true", ""},
		"upstream's that exclude": {"deviceshare.VGPUEnable: true, deviceshare.GPUSharingEnable: true", "deviceshare.VGPUEnable conflicts with deviceshare.GPUSharingEnable; keep one of them true"},
		"a strategy":              {"scoringStrategy: {type: MostAllocated, resources: [{name: koordinator.sh/gpu-core, weight: 3}]}", ""},
		"an unknown strategy":     {"scoringStrategy: {type: Most}", `scoringStrategy.type: found "Most", want one of Fragmentation, LeastAllocated, MostAllocated`},
		"a weight below zero":     {"scoringStrategy: {weight: -1}", "scoringStrategy.weight: found -1, want a weight from 0 to 1000000"},
		"a resource without effect": {"scoringStrategy: {resources: [{name: koordinator.sh/gpu-core, weight: 1}]}",
			"scoringStrategy.resources: has no effect with type Fragmentation; remove it"},
		"a resource that is no device's": {"scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}", `scoringStrategy.resources[0].name: found "cpu"`},
		"a weight of a resource":         {"scoringStrategy: {type: LeastAllocated, resources: [{name: koordinator.sh/rdma, weight: 101}]}", "scoringStrategy.resources[0].weight: found 101, want 1 to 100"},
		"a misspelt field":               {"scoringStrategy: {typ: LeastAllocated}", `unknown field "typ"`},
		"a model without a name":         {"gpuShareUnsupportedModels: [{vendor: nvidia}]", "gpuShareUnsupportedModels[0]: found no model, want vendor and model"},
		"no name of a ConfigMap":         {"gpuSharedResourceTemplatesConfig: {configMapName: A_B}", `gpuSharedResourceTemplatesConfig: found "A_B", want the name of a ConfigMap and its namespace`},
		"no key of a label":              {"nicTopologyKey: a b", `nicTopologyKey: found "a b", want the key of a label`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n    arguments: {" + tc.conf + "}\n"
			_, err := config.Parse([]byte(text), config.NewCatalogue(Spec()))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want == "", got == ""); diff != "" || !regexp.MustCompile(regexp.QuoteMeta(tc.want)).MatchString(got) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
