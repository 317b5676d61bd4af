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

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		args string
		want string
	}{
		"no arguments":      {args: `{}`},
		"every field":       {args: `{bindpolicy.timeout: 3s, bindpolicy.policies: [{name: a, matchCondition: "true", expression: "true", messageExpression: "'m'", message: m, failurePolicy: Ignore, costLimit: 10}]}`},
		"fields of the API": {args: `{bindpolicy.policies: [{name: a, expression: "pod.metadata.namespace == 'x' && node.status.allocatable['cpu'] == '4' && pod.spec.containers.all(c, c.image != '') && podGroup.spec.minMember > 1 && timestamp(pod.metadata.creationTimestamp) < timestamp('2030-01-01T00:00:00Z') && quantity(node.status.capacity['memory']).isGreaterThan(quantity('1Gi'))"}]}`},
		"wrong timeout": {
			args: `{bindpolicy.timeout: 5}`,
			want: `bindpolicy.timeout: found 5, want a duration above zero such as "10s"`,
		},
		"negative timeout": {
			args: `{bindpolicy.timeout: "-1s"}`,
			want: `bindpolicy.timeout: found "-1s", want a duration above zero such as "10s"`,
		},
		"not a list": {
			args: `{bindpolicy.policies: {name: a}}`,
			want: `bindpolicy.policies: found a mapping, want a list of policies, each with a name and an expression`,
		},
		"not a mapping": {
			args: `{bindpolicy.policies: [{name: a, expression: "true"}, "true"]}`,
			want: `bindpolicy.policies: policy number 2: found "true", want a mapping with at least name and expression`,
		},
		"misspelt field": {
			args: `{bindpolicy.policies: [{name: a, expresion: "true", expression: "true"}]}`,
			want: `bindpolicy.policies: policy "a": unknown field "expresion", did you mean "expression"?`,
		},
		"unknown field": {
			args: `{bindpolicy.policies: [{name: a, zzz: "true", expression: "true"}]}`,
			want: `bindpolicy.policies: policy "a": unknown field "zzz", the fields are costLimit, expression, failurePolicy, matchCondition, message, messageExpression, name`,
		},
		"missing name and expression": {
			args: `{bindpolicy.policies: [{message: m}]}`,
			want: `bindpolicy.policies: policy number 1: field "name" is missing, give the policy a name of its own
bindpolicy.policies: policy number 1: field "expression" is missing, give a CEL expression that is true when the pod may be bound`,
		},
		"duplicate name": {
			args: `{bindpolicy.policies: [{name: a, expression: "true"}, {name: a, expression: "true"}]}`,
			want: `bindpolicy.policies: policy "a": the name is used by more than one policy, give each its own`,
		},
		"wrong types": {
			args: `{bindpolicy.policies: [{name: a, expression: true, message: " ", messageExpression: [x], matchCondition: null}]}`,
			want: `bindpolicy.policies: policy "a": field "expression": found true, want a string that is not empty
bindpolicy.policies: policy "a": field "matchCondition": found nothing, want a string that is not empty
bindpolicy.policies: policy "a": field "message": found " ", want a string that is not empty
bindpolicy.policies: policy "a": field "messageExpression": found a list, want a string that is not empty`,
		},
		"wrong failurePolicy": {
			args: `{bindpolicy.policies: [{name: a, expression: "true", failurePolicy: ignore}]}`,
			want: `bindpolicy.policies: policy "a": field "failurePolicy": found "ignore", want "Fail" or "Ignore"`,
		},
		"wrong costLimit": {
			args: `{bindpolicy.policies: [{name: a, expression: "true", costLimit: 0}, {name: b, expression: "true", costLimit: 1.5}, {name: c, expression: "true", costLimit: many}, {name: d, expression: "true", costLimit: 10000001}]}`,
			want: `bindpolicy.policies: policy "a": field "costLimit": found 0, want a whole number from 1 to 1000000
bindpolicy.policies: policy "b": field "costLimit": found 1.5, want a whole number from 1 to 1000000
bindpolicy.policies: policy "c": field "costLimit": found "many", want a whole number from 1 to 1000000
bindpolicy.policies: policy "d": field "costLimit": found 10000001, want a whole number from 1 to 1000000`,
		},
		"misspelt field of the pod": {
			args: `{bindpolicy.policies: [{name: a, expression: "pod.spce.nodeName == ''"}]}`,
			want: `bindpolicy.policies: policy "a": field "expression" does not compile:
ERROR: expression:1:4: undefined field 'spce'
 | pod.spce.nodeName == ''
 | ...^`,
		},
		"all that is wrong at once": {
			args: `{bindpolicy.timeout: soon, bindpolicy.policies: [{name: a, mesage: m, expression: nodes}, {name: b}]}`,
			want: `bindpolicy.timeout: found "soon", want a duration above zero such as "10s"
bindpolicy.policies: policy "a": unknown field "mesage", did you mean "message"?
bindpolicy.policies: policy "b": field "expression" is missing, give a CEL expression that is true when the pod may be bound
bindpolicy.policies: policy "a": field "expression" does not compile:
ERROR: expression:1:1: undeclared reference to 'nodes' (in container '')
 | nodes
 | ^`,
		},
		"misspelt variable": {
			args: `{bindpolicy.policies: [{name: a, expression: "true", matchCondition: "nod.spec.unschedulable"}]}`,
			want: `bindpolicy.policies: policy "a": field "matchCondition" does not compile:
ERROR: matchCondition:1:1: undeclared reference to 'nod' (in container '')
 | nod.spec.unschedulable
 | ^`,
		},
		"syntax error": {
			args: `{bindpolicy.policies: [{name: a, expression: "true &&"}]}`,
			want: `bindpolicy.policies: policy "a": field "expression" does not compile:
ERROR: expression:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
 | true &&
 | .......^`,
		},
		"wrong result types, in two policies": {
			args: `{bindpolicy.policies: [{name: a, expression: "pod.metadata.name"}, {name: b, expression: "true", messageExpression: "1"}]}`,
			want: `bindpolicy.policies: policy "a": field "expression" is of type string, want bool: pod.metadata.name
bindpolicy.policies: policy "b": field "messageExpression" is of type int, want string: 1`,
		},
	}
	flavours := map[string]func(any) any{
		"string keys": func(v any) any { return v },
		"any keys":    anyKeys,
	}
	for name, tc := range tests {
		for flavour, convert := range flavours {
			t.Run(name+", "+flavour, func(t *testing.T) {
				args := framework.Arguments{}
				for key, value := range arguments(t, tc.args) {
					args[key] = convert(value)
				}
				got := ""
				if err := Spec().Validate(args); err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Validate (-want +got):\n%s", diff)
				}
				if _, err := New(args, newCluster().handle()); (err != nil) != (tc.want != "") {
					t.Errorf("New() = %v, and Validate said %q", err, tc.want)
				}
			})
		}
	}
}

// A key that is no string cannot be read from JSON, so it has a test of its own.
func TestValidateKeyOfAnotherType(t *testing.T) {
	args := framework.Arguments{policiesArgument: []any{map[any]any{1: "x"}}}
	want := `bindpolicy.policies: policy number 1: found the key 1, want the name of a field`
	if err := Spec().Validate(args); err == nil || err.Error() != want {
		t.Errorf("Validate() = %v, want %s", err, want)
	}
}

func TestCostLimitOfEveryIntegerType(t *testing.T) {
	for _, value := range []any{7, int64(7), uint64(7), 7.0} {
		got := uint64(0)
		if err := setCostLimit(&got, value); err != nil || got != 7 {
			t.Errorf("setCostLimit(%T) = %d, %v; want 7", value, got, err)
		}
	}
}

// TestPoliciesAreBounded: what a megabyte of policies compiles to takes gigabytes, and what is wrong with it is as long as
// a book. Neither gets that far.
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
			args: many(maxPolicies, "nobody && pod.x && 1"), findings: maxFindings + 1, last: "and 80 more findings",
		},
		"a finding that goes on and on": {
			args: many(1, strings.Repeat("nobody && ", 1_000)+"true"), findings: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := Spec().Validate(tt.args)
			var findings []error
			if err != nil {
				findings = err.(interface{ Unwrap() []error }).Unwrap()
			}
			if len(findings) != tt.findings {
				t.Fatalf("%d findings, want %d: %v", len(findings), tt.findings, err)
			}
			for _, finding := range findings {
				if len(finding.Error()) > brief.Most {
					t.Errorf("a finding of %d bytes", len(finding.Error()))
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

// TestPoliciesTakeBoundedMemory: as much text as may be, in as many policies as may be.
func TestPoliciesTakeBoundedMemory(t *testing.T) {
	const most = 128 << 20
	text := strings.Repeat("(", 20) + strings.Repeat("pod.metadata.name != 'x' && ", 22) + "true" + strings.Repeat(")", 20)
	list := make([]any, maxTexts/len(text))
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("p%d", i), "expression": text}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := Spec().Validate(framework.Arguments{policiesArgument: list}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d policies of %d bytes allocate %d MiB", len(list), len(text), took>>20)
	if took > most {
		t.Errorf("%d MiB are allocated, want at most %d", took>>20, most>>20)
	}
}
