// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestReasonOf checks the short forms of filter results. In messages they follow a number of nodes, as in "12 nodes
// tainted".
func TestReasonOf(t *testing.T) {
	for reason, want := range map[string]string{
		"node(s) had untolerated taint {maintenance: now}":                            `tainted "maintenance"`,
		"node(s) had untolerated taint(s)":                                            "tainted",
		"node(s) had untolerated taint {node.kubernetes.io/not-ready: }":              "not ready",
		"node(s) had untolerated taint {node.kubernetes.io/unreachable: }":            "unreachable",
		"node(s) were unschedulable":                                                  "cordoned",
		"node(s) didn't match Pod's node affinity/selector":                           "didn't match Pod's node affinity/selector",
		"Insufficient nvidia.com/gpu":                                                 "short of nvidia.com/gpu",
		`claim "c1" (request "r", class "gpu"): node(s) without a free device for it`: `without a free device for claim "c1" (request "r", class "gpu")`,
		`claim "c1" (request "r", class "gpu"): node(s) cannot access its devices`:    `cannot access its devices: claim "c1" (request "r", class "gpu")`,
	} {
		fit := &api.FitError{NodeName: "n", Status: api.StatusSets{{Code: api.Unschedulable, Reason: reason}}}
		if got := ShortReason(fit); got != want {
			t.Errorf("ReasonOf(%q) is %q, want %q", reason, got, want)
		}
	}
}
