// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const noQuarantine = `
bindpolicy.policies:
- name: no-quarantine
  expression: "!(has(node.metadata.labels) && 'quarantine' in node.metadata.labels)"
  messageExpression: "'node ' + node.metadata.name + ' is in quarantine: ' + node.metadata.labels['quarantine']"
`

const notCordoned = `
bindpolicy.policies:
- name: not-cordoned
  expression: "!node.?spec.unschedulable.orValue(false)"
  message: the node was cordoned
`

func TestPreBind(t *testing.T) {
	tests := map[string]struct {
		args   string
		change func(c *cluster)
		want   string
		// reads are the API reads it takes, "verb resource" in any order.
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
			want:  `policy "a" cannot judge pod ns/p on node n: expression: no such key: rack`,
			reads: []string{"get nodes"},
		},
		"run-time error, Ignore": {
			args:  `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "node.metadata.labels['rack'] == '1'"}]}`,
			reads: []string{"get nodes"},
		},
		"run-time error of a matchCondition": {
			args:  `{bindpolicy.policies: [{name: a, matchCondition: "node.metadata.labels['rack'] == '1'", expression: "true"}]}`,
			want:  `policy "a" cannot judge pod ns/p on node n: matchCondition: no such key: rack`,
			reads: []string{"get nodes"},
		},
		"Ignore does not pass over a refusal": {
			args: `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "false", message: m}]}`,
			want: `policy "a" refuses pod ns/p on node n: m`,
		},
		"a dyn result that is no bool": {
			args: `{bindpolicy.policies: [{name: a, expression: "dyn('x')"}]}`,
			want: `policy "a" cannot judge pod ns/p on node n: expression: the result is of type string, want bool`,
		},
		"cost limit": {
			args: `{bindpolicy.policies: [{name: a, costLimit: 5, expression: "[1, 2, 3, 4, 5, 6, 7].all(i, i > 0)"}]}`,
			want: `policy "a" cannot judge pod ns/p on node n: expression: operation cancelled: actual cost limit exceeded`,
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
			// What 10,000,000 cost units take depends on the machine.
			args: `{bindpolicy.timeout: 10m, bindpolicy.policies: [` + costlyPolicies(11) + `{name: last, expression: "true"}]}`,
			want: `policy "last" cannot judge pod ns/p on node n: expression: the check has spent the 10000000 cost units that all policies together may spend on one task`,
		},
		"node gone": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "node.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.node = nil },
			want:   `policy "a" refuses pod ns/p on node n: node n does not exist any more`,
			reads:  []string{"get nodes"},
		},
		"pod gone": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "pod.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.pod = nil },
			want:   `policy "a" refuses pod ns/p on node n: pod ns/p does not exist any more`,
			reads:  []string{"get pods"},
		},
		"pod replaced": {
			args:   `{bindpolicy.policies: [{name: a, failurePolicy: Ignore, expression: "pod.metadata.name != ''"}]}`,
			change: func(c *cluster) { c.pod.UID = types.UID("another") },
			want:   `policy "a" refuses pod ns/p on node n: pod ns/p was replaced by another of its name`,
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
			want:   `policy "a" cannot judge pod ns/p on node n: expression: reading PodGroup ns/g: podgroups.scheduling.volcano.sh "g" not found`,
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

func TestWithoutPoliciesThereIsNoStep(t *testing.T) {
	built, err := New(arguments(t, `{}`), newCluster().handle())
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if _, has := built.(framework.PreBinder); has {
		t.Error("the plugin has a pre-bind step")
	}
}

func set(values []string) map[string]bool {
	out := map[string]bool{}
	for _, value := range values {
		out[value] = true
	}
	return out
}

// actions lists what was asked of the API, and fails the test when something was asked twice.
func actions(t *testing.T, h *handle) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, action := range append(h.kube.Actions(), h.vc.Actions()...) {
		key := action.GetVerb() + " " + action.GetResource().Resource
		if out[key] {
			t.Errorf("%q was asked twice", key)
		}
		out[key] = true
	}
	return out
}

func TestPreBindWithoutPodGroup(t *testing.T) {
	p := newPlugin(t, newCluster().handle(), `{bindpolicy.policies: [{name: a, expression: "podGroup.spec.minMember > 1"}]}`)
	task := newTask("p")
	task.Pod.Annotations = nil
	want := `policy "a" cannot judge pod ns/p on node n: expression: pod ns/p has no PodGroup: it lacks the annotation scheduling.k8s.io/group-name`
	if err := p.PreBind(t.Context(), task, "n"); err == nil || err.Error() != want {
		t.Errorf("PreBind() = %v, want %s", err, want)
	}
}

// onGetNode makes reads of nodes do as the function says.
func onGetNode(h *handle, fn func() error) {
	h.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := fn()
		return err != nil, nil, err
	})
}

func TestPreBindAPIError(t *testing.T) {
	tests := map[string]struct {
		failurePolicy string
		want          string
	}{
		"Fail":   {failurePolicy: "Fail", want: `policy "a" cannot judge pod ns/p on node n: expression: reading node n: etcd is away`},
		"Ignore": {failurePolicy: "Ignore"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newCluster().handle()
			onGetNode(h, func() error { return apierrors.NewServiceUnavailable("etcd is away") })
			p := newPlugin(t, h, `{bindpolicy.policies: [{name: a, failurePolicy: `+tc.failurePolicy+`, expression: "node.metadata.name != ''"}]}`)
			got := ""
			if err := p.PreBind(t.Context(), newTask("p"), "n"); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PreBind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreBindEnds(t *testing.T) {
	tests := map[string]struct {
		failurePolicy string
		// deadline is the step's own, none when zero.
		deadline time.Duration
		want     string
		wantTook time.Duration
	}{
		"own timeout, Fail": {
			failurePolicy: "Fail",
			want:          `policy "a" cannot judge pod ns/p on node n: expression: context deadline exceeded`,
			wantTook:      3 * time.Second,
		},
		"own timeout, Ignore": {
			failurePolicy: "Ignore",
			wantTook:      3 * time.Second,
		},
		"step's deadline, even with Ignore": {
			failurePolicy: "Ignore",
			deadline:      time.Second,
			want:          `the check of pod ns/p on node n was ended: context deadline exceeded`,
			wantTook:      time.Second,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newCluster().handle()
				release := make(chan struct{})
				defer close(release)
				onGetNode(h, func() error {
					<-release
					return errors.New("late")
				})
				p := newPlugin(t, h, `{bindpolicy.timeout: 3s, bindpolicy.policies: [{name: a, failurePolicy: `+tc.failurePolicy+`, expression: "node.metadata.name != ''"}]}`)
				ctx := t.Context()
				if tc.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				}
				start, got := time.Now(), ""
				if err := p.PreBind(ctx, newTask("p"), "n"); err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("PreBind (-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != tc.wantTook {
					t.Errorf("PreBind took %s, want %s", took, tc.wantTook)
				}
			})
		})
	}
}

// endedMeanwhile is a context that ends between the last look at its error and the evaluation.
type endedMeanwhile struct{ context.Context }

func (endedMeanwhile) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func TestEvaluationIsInterrupted(t *testing.T) {
	h := newCluster().handle()
	p := newPlugin(t, h, `{bindpolicy.policies: [{name: a, expression: "lists.range(1000).all(i, i >= 0)"}]}`)
	live := p.reader.view(newTask("p"), "n")
	if err := p.policies[0].check(t.Context(), live); err != nil {
		t.Fatalf("check() = %v", err)
	}
	want := `policy "a" cannot judge pod ns/p on node n: expression: operation interrupted`
	if err := p.policies[0].check(endedMeanwhile{t.Context()}, live); err == nil || err.Error() != want {
		t.Errorf("check() = %v, want %s", err, want)
	}
}

// A costly expression ends by its cost also where the interruption would not reach: in nested comprehensions.
func TestNestedComprehensionsEndByCost(t *testing.T) {
	p := newPlugin(t, newCluster().handle(), `
bindpolicy.policies:
- name: a
  costLimit: 50000
  expression: "lists.range(3000).all(i, lists.range(3000).all(j, lists.range(3000).all(k, i + j + k >= 0)))"
`)
	want := `policy "a" cannot judge pod ns/p on node n: expression: operation cancelled: actual cost limit exceeded`
	if err := p.PreBind(t.Context(), newTask("p"), "n"); err == nil || err.Error() != want {
		t.Errorf("PreBind() = %v, want %s", err, want)
	}
}

// TestGangInParallel runs the steps of a gang side by side, over two sessions of one configuration: programs are
// those made at load time, and reads of the shared objects are shared.
func TestGangInParallel(t *testing.T) {
	const members = 32
	c := newCluster()
	h := c.handle()
	for i := range members {
		pod := c.pod.DeepCopy()
		pod.Name = fmt.Sprintf("p%d", i)
		if err := h.kube.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlugin(t, h, `{bindpolicy.policies: [{name: a, expression: "pod.metadata.name != 'p7' && node.metadata.name == 'n' && podGroup.spec.minMember == 4", message: seven}]}`)
	compiled := *p.policies[0]
	for range 2 {
		errs := make([]error, members)
		var gang sync.WaitGroup
		for i := range members {
			gang.Go(func() { errs[i] = p.PreBind(t.Context(), newTask(fmt.Sprintf("p%d", i)), "n") })
		}
		gang.Wait()
		for i, err := range errs {
			if (err != nil) != (i == 7) {
				t.Errorf("PreBind of member %d = %v", i, err)
			}
		}
	}
	if *p.policies[0] != compiled {
		t.Error("a policy was compiled again after the configuration was loaded")
	}
}

func TestNoPolicyNoStep(t *testing.T) {
	built, err := New(arguments(t, `{}`), newCluster().handle())
	if err != nil {
		t.Fatal(err)
	}
	if _, steps := built.(framework.PreBinder); steps {
		t.Error("the plugin has a step without a policy")
	}
}

// costlyPolicies are policies that each run into their cost limit, and are passed over then.
func costlyPolicies(n int) string {
	const ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	costly := "true"
	for _, variable := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		costly = fmt.Sprintf("%s.all(%s, %s)", ten, variable, costly)
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{name: costly-%d, failurePolicy: Ignore, expression: "%s"}, `, i, costly)
	}
	return b.String()
}
