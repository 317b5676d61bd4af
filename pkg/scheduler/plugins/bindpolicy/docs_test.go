// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// documentedArguments returns the plugin's arguments in the nth YAML example of the plugin's page.
func documentedArguments(t *testing.T, n int) framework.Arguments {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/plugins/bindpolicy.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	var conf struct {
		Tiers []struct {
			Plugins []struct {
				Name      string
				Arguments framework.Arguments
			}
		}
	}
	if err := yaml.Unmarshal([]byte(examples[n][1]), &conf); err != nil {
		t.Fatal(err)
	}
	for _, tier := range conf.Tiers {
		for _, plugin := range tier.Plugins {
			if plugin.Name == Name {
				return plugin.Arguments
			}
		}
	}
	t.Fatalf("example %d on the page does not configure the plugin", n)
	return nil
}

// TestDocumentedExamples checks that the examples give the results that the page states.
func TestDocumentedExamples(t *testing.T) {
	tests := map[string]struct {
		example int
		change  func(c *cluster)
		want    string
	}{
		"schedulable":         {},
		"node without labels": {change: func(c *cluster) { c.node.Labels = nil }},
		"cordoned": {
			change: func(c *cluster) { c.node.Spec.Unschedulable = true },
			want:   `policy "not-cordoned" refuses pod ns/p on node n: the node was cordoned`,
		},
		"quarantine": {
			change: func(c *cluster) { c.node.Labels["quarantine"] = "xid-79" },
			want:   `policy "no-quarantine" refuses pod ns/p on node n: the node is in quarantine: xid-79`,
		},
		"not asked to fail": {example: 1},
		"asked to fail here": {
			example: 1,
			change:  func(c *cluster) { c.pod.Labels = map[string]string{"fail-pre-bind": "n"} },
			want:    `policy "fail-on-purpose" refuses pod ns/p on node n: asked to fail on node n`,
		},
		"asked to fail elsewhere": {
			example: 1,
			change:  func(c *cluster) { c.pod.Labels = map[string]string{"fail-pre-bind": "other"} },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			if tc.change != nil {
				tc.change(c)
			}
			plugin, err := Spec().New(documentedArguments(t, tc.example), c.handle())
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			got := ""
			if err := plugin.(framework.PreBinder).PreBind(t.Context(), newTask("p"), "n"); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("PreBind() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDocumentedCompileError(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/bindpolicy.md")
	if err != nil {
		t.Fatal(err)
	}
	args := arguments(t, `{bindpolicy.policies: [{name: no-quarantine, expression: "node.metdata.labels['quarantine'] == ''"}]}`)
	if _, err := Spec().Load(args); err == nil || !strings.Contains(string(page), err.Error()) {
		t.Errorf("the page does not contain this error:\n%v", err)
	}
}
