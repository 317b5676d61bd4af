// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
)

// TestDocumentedExample checks that the page's example is a valid configuration, in which plugin predicates does not
// bind volumes.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/volumebinding.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	parsed, err := config.Parse(example, config.NewCatalogue(Spec()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, tier := range parsed.Tiers {
		for _, option := range tier.Plugins {
			switch option.Name {
			case predicates.PluginName:
				got[option.Name] = option.Arguments[predicates.VolumeBindingEnable]
			case Name:
				settings, err := load(option.Arguments)
				if err != nil {
					t.Fatal(err)
				}
				got[option.Name] = len(settings.shape)
			}
		}
	}
	if diff := cmp.Diff(map[string]any{predicates.PluginName: false, Name: 2}, got); diff != "" {
		t.Errorf("configured (-want +got):\n%s", diff)
	}
}
