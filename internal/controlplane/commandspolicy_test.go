// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// TestCommandsForQueues evaluates the chart's policy, which accepts a Command for a queue in the chart's namespace
// only.
func TestCommandsForQueues(t *testing.T) {
	rendered, err := os.ReadFile("../../config/install/volcano-prebind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy admissionv1.ValidatingAdmissionPolicy
	for document := range bytes.SplitSeq(rendered, []byte("\n---\n")) {
		var found admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal(document, &found); err == nil && found.Kind == "ValidatingAdmissionPolicy" && found.Name == "volcano-prebind-commands" {
			policy = found
		}
	}
	if len(policy.Spec.MatchConditions) != 1 || len(policy.Spec.Validations) != 1 {
		t.Fatalf("the policy has %d conditions and %d validations, want 1 of each", len(policy.Spec.MatchConditions), len(policy.Spec.Validations))
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	holds := func(expression string, command map[string]any) bool {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := program.Eval(map[string]any{"object": command})
		if err != nil {
			t.Fatal(err)
		}
		return value.Value() == true
	}
	tests := map[string]struct {
		namespace string
		target    map[string]any
		rejected  bool
	}{
		"for a queue, in a tenant's namespace":      {namespace: "tenant", target: map[string]any{"kind": "Queue", "name": "default"}, rejected: true},
		"for a queue, in the chart's namespace":     {namespace: "volcano-system", target: map[string]any{"kind": "Queue", "name": "default"}},
		"for a job, in a tenant's namespace":        {namespace: "tenant", target: map[string]any{"kind": "Job", "name": "j"}},
		"without a target, in a tenant's, likewise": {namespace: "tenant"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			command := map[string]any{"metadata": map[string]any{"namespace": tt.namespace}}
			if tt.target != nil {
				command["target"] = tt.target
			}
			rejected := holds(policy.Spec.MatchConditions[0].Expression, command) && !holds(policy.Spec.Validations[0].Expression, command)
			if rejected != tt.rejected {
				t.Errorf("rejected: %t, want %t", rejected, tt.rejected)
			}
		})
	}
}
