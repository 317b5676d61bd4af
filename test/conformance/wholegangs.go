// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
)

// wholeGangsFile has the differences that are accepted when this project's own preempt and reclaim run, beside those of
// acceptedFile.
const wholeGangsFile = "test/conformance/wholegangs.tsv"

// withWholeGangs returns the configuration of a scheduler with this project's own preempt and reclaim.
func withWholeGangs(conf string) (string, error) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(conf), &content); err != nil {
		return "", fmt.Errorf("reading a scheduler's configuration: %w", err)
	}
	if content == nil { // the configuration is empty
		content = map[string]any{}
	}
	configurations, _ := content["configurations"].([]any)
	for _, action := range []string{preempt.Name, preempt.ReclaimName} {
		configurations = setArgument(configurations, action, preempt.WholeGangs, true)
	}
	content["configurations"] = configurations
	changed, err := yaml.Marshal(content)
	return string(changed), err
}

// setArgument sets the argument of an action, whose block is added if there is none.
func setArgument(configurations []any, action, argument string, value any) []any {
	for _, block := range configurations {
		fields, _ := block.(map[string]any)
		if fields["name"] != action {
			continue
		}
		arguments, _ := fields["arguments"].(map[string]any)
		if arguments == nil {
			arguments = map[string]any{}
			fields["arguments"] = arguments
		}
		arguments[argument] = value
		return configurations
	}
	return append(configurations, map[string]any{"name": action, "arguments": map[string]any{argument: value}})
}
