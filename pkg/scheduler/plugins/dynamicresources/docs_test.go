// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
)

// TestDocumentedExample checks that the page's example is a valid configuration with the defaults, and that plugin
// predicates does not handle claims in it.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/dynamicresources.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(actions:.*?)```").FindSubmatch(page)[1]
	parsed, err := config.Parse(example, config.NewCatalogue(Spec()))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]any{predicates.PluginName: false, Name: defaults}, map[string]any{}
	for _, tier := range parsed.Tiers {
		for _, option := range tier.Plugins {
			switch option.Name {
			case predicates.PluginName:
				got[option.Name] = option.Arguments[predicates.DynamicResourceAllocationEnable]
			case Name:
				if got[option.Name], err = load(option.Arguments); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Errorf("configured (-want +got):\n%s", diff)
	}
}

// TestBothSwitchedOn checks the error if the arguments of plugin predicates also enable resource claims. The error
// names the line of each such argument.
func TestBothSwitchedOn(t *testing.T) {
	_, err := config.Parse([]byte(`actions: allocate
tiers:
- plugins:
  - name: predicates
    arguments:
      predicate.DynamicResourceAllocationEnable: true
      dynamicresources.filterTimeoutSeconds: 3
  - name: dynamicresources
`), config.NewCatalogue(Spec()))
	want := `line 6: argument "predicate.DynamicResourceAllocationEnable" of plugin "predicates" must be false with plugin "dynamicresources" (line 8), which takes this over; remove one of them
line 7: argument "dynamicresources.filterTimeoutSeconds" of plugin "predicates" has no effect with plugin "dynamicresources" (line 8); move it to that plugin`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
