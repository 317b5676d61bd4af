// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPrintedCommandsNameOneResource: two of our CRDs are called podgroup, and kubectl takes the one of the first group. A
// command that a program or a page has people run names its resource so that only one group has it.
func TestPrintedCommandsNameOneResource(t *testing.T) {
	crds, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	served := map[string]int{}
	for _, file := range crds {
		var crd struct {
			Spec struct {
				Names struct {
					Plural, Singular string
					ShortNames       []string
				}
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
			served[name]++
		}
	}
	if served["podgroup"] != 2 || served["pg"] != 1 {
		t.Fatalf("podgroup is served %d times and pg %d times, want 2 and 1", served["podgroup"], served["pg"])
	}
	printed := map[string]string{"the sandbox's hints": hints}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../config/charts/volcano-prebind/templates/NOTES.txt"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, page := range pages {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			printed[page] = string(data)
		}
	}
	// What stands in a line by itself is to be run; pages also explain in a sentence what a command would show.
	command := regexp.MustCompile(`(?m)^ *(?:bin/)?kubectl (?:-n \S+ )?(?:get|describe|edit|patch|delete|annotate|label|wait) (\S+)`)
	found := 0
	for where, text := range printed {
		for _, match := range command.FindAllStringSubmatch(text, -1) {
			found++
			for resource := range strings.SplitSeq(match[1], ",") {
				if name, _, _ := strings.Cut(resource, "/"); served[name] > 1 {
					t.Errorf("%s: %q names a resource of %d groups: %s", where, strings.TrimSpace(match[0]), served[name], name)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("%d commands found, want those of the hints at least", found)
	}
}
