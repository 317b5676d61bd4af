// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

func TestWriteDoc(t *testing.T) {
	cat := NewCatalogue(framework.PluginSpec{
		Name: "last-look",
		Doc:  "Looks once more.",
		Arguments: []framework.Argument{
			{Name: "how", Type: framework.String, Enum: []string{"hard", "soft"}, Default: "hard", Doc: "Either | or."},
		},
	})
	var b strings.Builder
	if err := WriteDoc(&b, cat); err != nil {
		t.Fatal(err)
	}
	doc := b.String()
	for name, want := range map[string]string{
		"our plugin's arguments":  "### `last-look`\n\nLooks once more.\n\n| Argument | Type | Default | Meaning |\n|---|---|---|---|\n| `how` | `hard` or `soft` | `hard` | Either \\| or. |\n",
		"the built-in conf":       "```yaml\nactions: \"enqueue, allocate, backfill\"\n",
		"an oddly spelt switch":   "| `EnabledClusterOrder` | `false` |",
		"our switch":              "| `enablePreBind` | `true` |",
		"the transactions' block": "| `evictPartiallyBoundAfter` | duration or `never` | `never` |",
		"a family of arguments":   "| `tdm.revocable-zone.*` | string |",
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(doc, want) {
				t.Errorf("the page lacks:\n%s", want)
			}
		})
	}
	if ours, theirs := strings.Index(doc, "### `last-look`"), strings.Index(doc, "### `binpack`"); ours > theirs {
		t.Error("upstream's plugins come before ours")
	}
	for _, e := range cat.plugins {
		if !strings.Contains(doc, "### `"+e.Name+"`\n") {
			t.Errorf("the page lacks plugin %s", e.Name)
		}
	}
}
