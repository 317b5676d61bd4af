// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestDocumentedExample checks that the page's example is a valid configuration that has every argument about Device
// objects, with its default.
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
