// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// crdOf returns a CRD with one version and this schema of its spec, which is indented by 14 spaces.
func crdOf(spec string) string {
	return `kind: CustomResourceDefinition
metadata: {name: queues}
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              weight: {type: integer}
` + spec
}

const amounts = `              capability:
                type: object
                additionalProperties: {x-kubernetes-int-or-string: true}
`

// write writes the CRD to a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRulesAreAdded(t *testing.T) {
	path := write(t, t.TempDir(), "crd.yaml", crdOf(amounts))
	want := crdOf(`              capability:
                type: object
                maxProperties: 256
                x-kubernetes-validations:
                - rule: self.all(name, quantity(string(self[name])).compareTo(quantity('0')) >= 0)
                  message: an amount of a resource must be 0 or more
                additionalProperties: {x-kubernetes-int-or-string: true, maxLength: 64}
`)
	// Adding the rules again changes nothing.
	for range 2 {
		if err := addRules(path, [][]string{{"spec", "capability"}}, amountsOf0OrMore); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(got), "---\n") {
			t.Errorf("the file begins with %.20q, want a document's mark", got)
		}
		if diff := cmp.Diff(decoded(t, []byte(want)), decoded(t, got)); diff != "" {
			t.Errorf("CRD (-want +got):\n%s", diff)
		}
	}
}

func TestCountsAreNotBelow0(t *testing.T) {
	const members = `              minTaskMember:
                type: object
                additionalProperties: {type: integer%s}
`
	path := write(t, t.TempDir(), "crd.yaml", crdOf(fmt.Sprintf(members, "")))
	if err := addRules(path, [][]string{{"spec", "minTaskMember"}}, countsOf0OrMore); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decoded(t, []byte(crdOf(fmt.Sprintf(members, ", minimum: 0")))), decoded(t, got)); diff != "" {
		t.Errorf("CRD (-want +got):\n%s", diff)
	}
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestMissingFieldsAreReported checks that the tool fails and leaves the file unchanged if upstream has renamed a
// field that has a rule.
func TestMissingFieldsAreReported(t *testing.T) {
	tests := map[string]struct {
		crd   string
		field []string
		want  string
	}{
		"a field":         {crd: crdOf(amounts), field: []string{"spec", "deserved"}, want: "crd.yaml: the schema has no field [spec deserved]"},
		"an inner field":  {crd: crdOf(amounts), field: []string{"spec", "capability", "resource"}, want: "crd.yaml: the schema has no field [spec capability resource]"},
		"a list":          {crd: crdOf(amounts), field: []string{"spec", "weight"}, want: "crd.yaml: [spec weight] holds no values by name"},
		"a schema":        {crd: "spec: {versions: [{name: v1}]}", field: []string{"spec", "capability"}, want: "crd.yaml: the schema has no field [spec capability]"},
		"any version":     {crd: "spec: {}", field: []string{"spec", "capability"}, want: "crd.yaml: it has no version"},
		"YAML in a file":  {crd: "spec: [", field: []string{"spec", "capability"}, want: "crd.yaml: "},
		"a mapping in it": {crd: "[]", field: []string{"spec", "capability"}, want: "crd.yaml: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, t.TempDir(), "crd.yaml", tt.crd)
			err := addRules(path, [][]string{tt.field}, amountsOf0OrMore)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if got, readErr := os.ReadFile(path); readErr != nil || string(got) != tt.crd {
				t.Errorf("the file holds %q, %v", got, readErr)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for name, args := range map[string][]string{"none": nil, "two": {"a", "b"}, "a folder without the CRDs": {t.TempDir()}} {
		if err := run(args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestTheCRDsHaveTheirRules checks that the CRDs in config/crd have the rules that the tool adds. So each field that
// main.go names exists in upstream's schema.
func TestTheCRDsHaveTheirRules(t *testing.T) {
	dir := t.TempDir()
	for file := range resourceLists {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, file, string(text))
	}
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	for file := range resourceLists {
		before, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", file))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("%s (-in the repository +with its rules):\n%s", file, diff)
		}
	}
}
