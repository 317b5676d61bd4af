// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

func TestCostLimitOfEveryIntegerType(t *testing.T) {
	for _, value := range []any{7, int64(7), uint64(7), 7.0} {
		got := uint64(0)
		if err := setCostLimit(&got, value); err != nil || got != 7 {
			t.Errorf("setCostLimit(%T) = %d, %v; want 7", value, got, err)
		}
	}
}

// TestPoliciesAreBounded checks that Load rejects too many or too long policies before they are compiled, and that
// it limits the number and length of errors. Compiling 1 MB of policies would allocate gigabytes.
func TestPoliciesAreBounded(t *testing.T) {
	many := func(n int, expression string) framework.Arguments {
		list := make([]any, n)
		for i := range list {
			list[i] = map[string]any{"name": fmt.Sprintf("p%d", i), "expression": expression}
		}
		return framework.Arguments{policiesArgument: list}
	}
	long := strings.Repeat("pod.metadata.name != 'x' && ", 500) + "true"
	tests := map[string]struct {
		args     framework.Arguments
		findings int
		last     string
	}{
		"too many policies": {
			args: many(maxPolicies+1, "true"), findings: 1, last: "bindpolicy.policies: found 101 policies, want at most 100",
		},
		"an expression that is too long": {
			args: many(1, long+strings.Repeat(" ", maxField)), findings: 1, last: `bindpolicy.policies: policy "p0": field "expression": found 30388 bytes, want at most 16384`,
		},
		"too much text": {
			args: many(5, long), findings: 1, last: "bindpolicy.policies: found expressions and messages of 70020 bytes together, want at most 65536",
		},
		"as much text as may be":     {args: many(4, long)},
		"as many policies as may be": {args: many(maxPolicies, "true")},
		"more findings than anyone reads": {
			args: many(maxPolicies, "nobody && pod.x && 1"), findings: maxFindings + 1, last: "and 80 more errors",
		},
		"a finding that goes on and on": {
			args: many(1, strings.Repeat("nobody && ", 1_000)+"true"), findings: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Load(tt.args)
			var findings []error
			if err != nil {
				findings = err.(interface{ Unwrap() []error }).Unwrap()
			}
			if len(findings) != tt.findings {
				t.Fatalf("%d findings, want %d: %v", len(findings), tt.findings, err)
			}
			for _, finding := range findings {
				if len(finding.Error()) > brief.Most {
					t.Errorf("a finding has %d bytes, want at most brief.Most", len(finding.Error()))
				}
			}
			if tt.last == "" {
				return
			}
			if diff := cmp.Diff(tt.last, findings[len(findings)-1].Error()); diff != "" {
				t.Errorf("last finding (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoliciesTakeBoundedMemory checks how much memory the largest permitted list of policies allocates when it is
// compiled.
func TestPoliciesTakeBoundedMemory(t *testing.T) {
	const most = 128 << 20
	text := strings.Repeat("(", 20) + strings.Repeat("pod.metadata.name != 'x' && ", 22) + "true" + strings.Repeat(")", 20)
	list := make([]any, maxTexts/len(text))
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("p%d", i), "expression": text}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Spec().Load(framework.Arguments{policiesArgument: list}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d policies of %d bytes allocated %d MiB", len(list), len(text), took>>20)
	if took > most {
		t.Errorf("allocated %d MiB, want at most %d", took>>20, most>>20)
	}
}
