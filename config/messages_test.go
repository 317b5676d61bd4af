// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// TestMessages compares the messages with which the chart's ValidatingAdmissionPolicies reject a write, rendered with
// the default values.
func TestMessages(t *testing.T) {
	rendered, err := os.ReadFile("install/volcano-prebind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for document := range bytes.SplitSeq(rendered, []byte("\n---\n")) {
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal(document, &policy); err != nil || policy.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		for _, validation := range policy.Spec.Validations {
			got[policy.Name] = append(got[policy.Name], validation.Message+validation.MessageExpression)
		}
	}
	want := map[string][]string{
		"volcano-prebind-commands": {"Commands that open or close a Queue are accepted only in namespaces volcano-system; add namespaces with the chart's value queues.commandNamespaces"},
		"volcano-prebind-devices":  {"annotation scheduling.koordinator.sh/device-allocated can be written by the scheduler only; leave it unchanged"},
		"volcano-prebind-minimum":  {`"annotation " + variables.written[0] + " can be written by the scheduler only; leave it unchanged or remove it"`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
