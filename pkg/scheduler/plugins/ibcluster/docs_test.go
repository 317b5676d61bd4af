// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// argumentsIn returns the plugin's arguments in a configuration.
func argumentsIn(t *testing.T, text string) framework.Arguments {
	t.Helper()
	var conf struct {
		Tiers []struct {
			Plugins []struct {
				Name      string
				Arguments framework.Arguments
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &conf); err != nil {
		t.Fatal(err)
	}
	for _, tier := range conf.Tiers {
		for _, plugin := range tier.Plugins {
			if plugin.Name == Name {
				return plugin.Arguments
			}
		}
	}
	t.Fatal("the configuration does not name the plugin")
	return nil
}

// TestPage checks that the plugin's page has the arguments, annotations, presets and event reasons of the code.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/plugins/ibcluster.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)[1]
	if _, err := Spec().Load(argumentsIn(t, example)); err != nil {
		t.Errorf("the example is invalid: %v", err)
	}
	sample, err := os.ReadFile("../../../../config/samples/ibcluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Spec().Load(argumentsIn(t, string(sample))); err != nil {
		t.Errorf("the sample is invalid: %v", err)
	}
	var want []string
	for _, preset := range topology.Presets() {
		want = append(want, "| `"+preset.Name+"` | `"+strings.Join(preset.Keys, "`, `")+"` | "+preset.Doc+" |")
	}
	for _, argument := range Spec().Arguments {
		want = append(want, "| `"+argument.Name+"` |")
	}
	for _, annotation := range []string{ModeAnnotation, LevelAnnotation, ClustersAnnotation, AffinityGroupAnnotation} {
		want = append(want, "| `"+annotation+"` |")
	}
	want = append(want, malformedReason, ignoredReason, splitReason, twiceReason)
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not contain\n%s", text)
		}
	}
}
