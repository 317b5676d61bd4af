// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

func TestLoad(t *testing.T) {
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
				if _, err := Spec().Load(args); err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Load (-want +got):\n%s", diff)
				}
				if _, err := Spec().New(args, newCluster().handle()); (err != nil) != (tc.want != "") {
					t.Errorf("New() = %v, but Load returned %q", err, tc.want)
				}
			})
		}
	}
}

func TestPreBind(t *testing.T) {
	tests := map[string]struct {
		args   string
		change func(c *cluster)
		want   string
		// reads are the expected API reads, as "verb resource", in any order.
		reads []string
	}{
		"allowed": {
			args:  noQuarantine,
			reads: []string{"get nodes"},
		},
		"quarantine label": {
			args:   noQuarantine,
			change: func(c *cluster) { c.node.Labels["quarantine"] = "xid-79" },
			want:   `policy "no-quarantine" refuses pod ns/p on node n: node n is in quarantine: xid-79`,
			reads:  []string{"get nodes"},
		},
		"cordoned node": {
			args:   notCordoned,
			change: func(c *cluster) { c.node.Spec.Unschedulable = true },
			want:   `policy "not-cordoned" refuses pod ns/p on node n: the node was cordoned`,
			reads:  []string{"get nodes"},
		},
		"schedulable node": {
			args:  notCordoned,
			reads: []string{"get nodes"},
		},
		"fields of pod, node and podGroup": {
			args: `{bindpolicy.policies: [{name: a, expression: "podGroup.spec.minMember == 4 && podGroup.spec.queue == 'research' && podGroup.kind == 'PodGroup' && node.kind == 'Node' && pod.kind == 'Pod' && pod.metadata.namespace == 'ns' && pod.spec.containers[0].image.startsWith('registry.example/') && quantity(node.status.allocatable['cpu']).isGreaterThan(quantity('3500m'))"}]}`,
			change: func(c *cluster) {
				c.node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
			},
			reads: []string{"get nodes", "get podgroups", "get pods"},
		},
		"podGroup refuses, with the expression as the reason": {
			args:  `{bindpolicy.policies: [{name: small, expression: podGroup.spec.minMember <= 2}]}`,
			want:  `policy "small" refuses pod ns/p on node n: expression is false: podGroup.spec.minMember <= 2`,
			reads: []string{"get podgroups"},
		},
		"matchCondition false leaves the policy out, and its reads": {
			args:  `{bindpolicy.policies: [{name: a, matchCondition: "pod.metadata.namespace == 'other'", expression: "node.metadata.name == 'x'"}]}`,
			reads: []string{"get pods"},
		},
		"matchCondition true": {
			args:  `{bindpolicy.policies: [{name: a, matchCondition: "pod.metadata.namespace == 'ns'", expression: "false", message: never}]}`,
			want:  `policy "a" refuses pod ns/p on node n: never`,
			reads: []string{"get pods"},
		},
		"every object is read once for all policies": {
			args:  `{bindpolicy.policies: [{name: a, expression: "node.metadata.name == 'n'"}, {name: b, matchCondition: "pod.metadata.name == 'p'", expression: "node.metadata.name != 'x' && pod.metadata.name != 'x'"}]}`,
			reads: []string{"get nodes", "get pods"},
		},
		"the first refusal in the order of the conf": {
			args: `{bindpolicy.policies: [{name: third, expression: "true"}, {name: second, expression: "false", message: m}, {name: first, expression: "false"}]}`,
			want: `policy "second" refuses pod ns/p on node n: m`,
		},
		"run-time error, Fail": {
			args:  `{bindpolicy.policies: [{name: a, expression: "node.metadata.labels['rack'] == '1'"}]}`,
			want:  `policy "a" cannot be evaluated for pod ns/p on node n: expression: no such key: rack`,
			reads: []string{"get nodes"},
		},
		"run-time error, Ignore": {
			args:  `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "node.metadata.labels['rack'] == '1'"}]}`,
			reads: []string{"get nodes"},
		},
		"run-time error of a matchCondition": {
			args:  `{bindpolicy.policies: [{name: a, matchCondition: "node.metadata.labels['rack'] == '1'", expression: "true"}]}`,
			want:  `policy "a" cannot be evaluated for pod ns/p on node n: matchCondition: no such key: rack`,
			reads: []string{"get nodes"},
		},
		"Ignore does not pass over a refusal": {
			args: `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "false", message: m}]}`,
			want: `policy "a" refuses pod ns/p on node n: m`,
		},
		"a dyn result that is no bool": {
			args: `{bindpolicy.policies: [{name: a, expression: "dyn('x')"}]}`,
			want: `policy "a" cannot be evaluated for pod ns/p on node n: expression: the result is of type string, want bool`,
		},
		"cost limit": {
			args: `{bindpolicy.policies: [{name: a, costLimit: 5, expression: "[1, 2, 3, 4, 5, 6, 7].all(i, i > 0)"}]}`,
			want: `policy "a" cannot be evaluated for pod ns/p on node n: expression: operation cancelled: actual cost limit exceeded`,
		},
		"cost limit, Ignore": {
			args: `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, costLimit: 5, expression: "[1, 2, 3, 4, 5, 6, 7].all(i, i > 0)"}]}`,
		},
		"messageExpression that errors gives way to the message": {
			args:  `{bindpolicy.policies: [{name: a, expression: "false", messageExpression: "node.metadata.labels['rack']", message: plain}]}`,
			want:  `policy "a" refuses pod ns/p on node n: plain`,
			reads: []string{"get nodes"},
		},
		"messageExpression that is blank gives way to the expression": {
			args: `{bindpolicy.policies: [{name: a, expression: "false", messageExpression: "' '"}]}`,
			want: `policy "a" refuses pod ns/p on node n: expression is false: false`,
		},
		"a long message is cut": {
			args: `{bindpolicy.policies: [{name: a, expression: "false", message: "` + strings.Repeat("é", 2000) + `"}]}`,
			want: `policy "a" refuses pod ns/p on node n: ` + strings.Repeat("é", 130) + `... (and 3740 bytes more)`,
		},
		"policies together have a cost limit too": {
			// How long 10,000,000 cost units take depends on the machine.
			args: `{bindpolicy.timeout: 10m, bindpolicy.policies: [` + costlyPolicies(11) + `{name: last, expression: "true"}]}`,
			want: `policy "last" cannot be evaluated for pod ns/p on node n: expression: the check has spent the 10000000 cost units that all policies together may spend on one task`,
		},
		"node gone": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "node.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.node = nil },
			want:   `policy "a" refuses pod ns/p on node n: node n no longer exists`,
			reads:  []string{"get nodes"},
		},
		"pod gone": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "pod.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.pod = nil },
			want:   `policy "a" refuses pod ns/p on node n: pod ns/p no longer exists`,
			reads:  []string{"get pods"},
		},
		"pod replaced": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "pod.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.pod.UID = types.UID("another") },
			want:   `policy "a" refuses pod ns/p on node n: pod ns/p was deleted and recreated`,
			reads:  []string{"get pods"},
		},
		"pod being deleted": {
			args: `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "pod.metadata.name != ''"}]}`,
			change: func(c *cluster) {
				c.pod.DeletionTimestamp, c.pod.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"f"}
			},
			want:  `policy "a" refuses pod ns/p on node n: pod ns/p is being deleted`,
			reads: []string{"get pods"},
		},
		"podGroup gone, Fail": {
			args:   `{bindpolicy.policies: [{name: a, expression: "podGroup.spec.minMember > 1"}]}`,
			change: func(c *cluster) { c.podGroup = nil },
			want:   `policy "a" cannot be evaluated for pod ns/p on node n: expression: reading PodGroup ns/g: podgroups.scheduling.volcano.sh "g" not found`,
			reads:  []string{"get podgroups"},
		},
		"podGroup gone, Ignore": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "podGroup.spec.minMember > 1"}]}`,
			change: func(c *cluster) { c.podGroup = nil },
			reads:  []string{"get podgroups"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			if tc.change != nil {
				tc.change(c)
			}
			h := c.handle()
			p := newPlugin(t, h, tc.args)
			got := ""
			if err := p.PreBind(t.Context(), newTask("p"), "n"); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PreBind (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sortedKeys(set(tc.reads)), sortedKeys(actions(t, h))); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
			if err := p.Rollback(t.Context(), newTask("p"), "n"); err != nil {
				t.Errorf("Rollback() = %v", err)
			}
		})
	}
}

// TestMessagesOfBounds has the errors of lists of policies that are too large to be written here as YAML.
func TestMessagesOfBounds(t *testing.T) {
	list := func(n int, change func(i int, policy map[string]any)) framework.Arguments {
		policies := make([]any, n)
		for i := range policies {
			policy := map[string]any{"name": fmt.Sprint("p", i), "expression": "true"}
			change(i, policy)
			policies[i] = policy
		}
		return framework.Arguments{policiesArgument: policies}
	}
	long := strings.Repeat("x", 20_000)
	var findings []string
	for i := range 20 {
		findings = append(findings, fmt.Sprintf(`bindpolicy.policies: policy "p%d": field "costLimit": found 0, want a whole number from 1 to 1000000`, i))
	}
	for name, tt := range map[string]struct {
		args framework.Arguments
		want string
	}{
		"an empty list": {framework.Arguments{policiesArgument: []any{}}, "bindpolicy.policies: found an empty list, want at least one policy: without any the plugin checks nothing"},
		"many policies": {list(101, func(int, map[string]any) {}), "bindpolicy.policies: found 101 policies, want at most 100"},
		"a key that is no text": {framework.Arguments{policiesArgument: []any{map[any]any{1: "x"}}},
			"bindpolicy.policies: policy number 1: found the key 1, want the name of a field"},
		"a long name": {list(1, func(_ int, p map[string]any) { p["name"] = long[:254] }),
			`bindpolicy.policies: policy "` + long[:64] + `"... (and 190 bytes more): field "name": found 254 bytes, want at most 253`},
		"a long expression": {list(1, func(_ int, p map[string]any) { p["expression"] = long }),
			`bindpolicy.policies: policy "p0": field "expression": found 20000 bytes, want at most 16384`},
		"long expressions together": {list(10, func(_ int, p map[string]any) { p["message"] = long[:10_000] }),
			"bindpolicy.policies: found expressions and messages of 100040 bytes together, want at most 65536"},
		"many errors": {list(25, func(_ int, p map[string]any) { p["costLimit"] = 0 }), strings.Join(findings, "\n") + "\nand 5 more errors"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Load(tt.args)
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
