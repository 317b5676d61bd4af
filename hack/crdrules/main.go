// SPDX-License-Identifier: Apache-2.0

// Command crdrules adds rules to generated CRDs that upstream's Go types do not state. Its argument is the folder of the
// CRDs, which it changes in place.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// maxResources limits how many resources a list may name. Without such a limit the API server cannot estimate the cost of a
// rule for the list.
const maxResources = 256

// resourceLists are the fields with amounts of resources, by the file of the CRD. The rule for them is that no amount is
// below 0, because upstream's scheduler panics on such amounts.
var resourceLists = map[string][][]string{
	"scheduling.volcano.sh_podgroups.yaml": {{"spec", "minResources"}},
	"scheduling.volcano.sh_queues.yaml":    {{"spec", "capability"}, {"spec", "deserved"}, {"spec", "guarantee", "resource"}},
}

// counts are the fields with numbers by name, by the file of the CRD. The rule for them is that no number is below 0.
var counts = map[string][][]string{
	"scheduling.volcano.sh_podgroups.yaml": {{"spec", "minTaskMember"}},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdrules:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("the one argument is the folder of the CRDs")
	}
	for file, fields := range resourceLists {
		if err := addRules(filepath.Join(args[0], file), fields, amountsOf0OrMore); err != nil {
			return err
		}
	}
	for file, fields := range counts {
		if err := addRules(filepath.Join(args[0], file), fields, countsOf0OrMore); err != nil {
			return err
		}
	}
	return nil
}

// amountsOf0OrMore adds the rule that amounts of resources are 0 or more to the schema of a list of resources. values is
// the schema of the amounts in the list.
func amountsOf0OrMore(list, values map[string]any) {
	list["maxProperties"] = maxResources
	list["x-kubernetes-validations"] = []any{map[string]any{
		"rule":    "self.all(name, quantity(string(self[name])).compareTo(quantity('0')) >= 0)",
		"message": "an amount of a resource must be 0 or more",
	}}
	values["maxLength"] = 64
}

// countsOf0OrMore adds the rule that numbers are 0 or more to the schema of the numbers.
func countsOf0OrMore(_, values map[string]any) { values["minimum"] = 0 }

// addRules adds the rule to the schema of each field, in every version of the CRD in the file.
func addRules(path string, fields [][]string, rule func(list, values map[string]any)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		return fmt.Errorf("%s: it has no version to add rules to", path)
	}
	for _, version := range versions {
		schema, _ := version.(map[string]any)["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		for _, field := range fields {
			list, err := descend(root, field)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			values, ok := list["additionalProperties"].(map[string]any)
			if !ok {
				return fmt.Errorf("%s: %v holds no values by name", path, field)
			}
			rule(list, values)
		}
	}
	if text, err = yaml.Marshal(crd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append([]byte("---\n"), text...), 0o644)
}

// descend returns the schema of a field. schema is the schema of the object, and field the path to the field.
func descend(schema map[string]any, field []string) (map[string]any, error) {
	for _, name := range field {
		properties, _ := schema["properties"].(map[string]any)
		var ok bool
		if schema, ok = properties[name].(map[string]any); !ok {
			return nil, fmt.Errorf("the schema has no field %v", field)
		}
	}
	return schema, nil
}
