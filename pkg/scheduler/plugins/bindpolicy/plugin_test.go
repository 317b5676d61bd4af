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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
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

func TestWithoutPoliciesThereIsNoStep(t *testing.T) {
	built, err := Spec().New(arguments(t, `{}`), newCluster().handle())
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if _, has := built.(framework.PreBinder); has {
		t.Error("the plugin without policies added a pre-bind step")
	}
}

func set(values []string) map[string]bool {
	out := map[string]bool{}
	for _, value := range values {
		out[value] = true
	}
	return out
}

// actions returns the API calls, and fails the test if a call was repeated.
func actions(t *testing.T, h *handle) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, action := range append(h.kube.Actions(), h.vc.Actions()...) {
		key := action.GetVerb() + " " + action.GetResource().Resource
		if out[key] {
			t.Errorf("API call %q was repeated", key)
		}
		out[key] = true
	}
	return out
}

func TestPreBindWithoutPodGroup(t *testing.T) {
	p := newPlugin(t, newCluster().handle(), `{bindpolicy.policies: [{name: a, expression: "podGroup.spec.minMember > 1"}]}`)
	task := newTask("p")
	task.Pod.Annotations = nil
	want := `policy "a" cannot be evaluated for pod ns/p on node n: expression: pod ns/p has no PodGroup: it lacks the annotation scheduling.k8s.io/group-name`
	if err := p.PreBind(t.Context(), task, "n"); err == nil || err.Error() != want {
		t.Errorf("PreBind() = %v, want %s", err, want)
	}
}

// onGetNode makes reads of nodes call the function.
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
		"Fail":   {failurePolicy: "Fail", want: `policy "a" cannot be evaluated for pod ns/p on node n: expression: reading node n: etcd is away`},
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
		// deadline is the time limit of the pre-bind step; 0 means none.
		deadline time.Duration
		want     string
		wantTook time.Duration
	}{
		"own timeout, Fail": {
			failurePolicy: "Fail",
			want:          `policy "a" cannot be evaluated for pod ns/p on node n: expression: context deadline exceeded`,
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

// endedMeanwhile is a context that ends after the plugin has checked Err and before the expression is evaluated.
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
	want := `policy "a" cannot be evaluated for pod ns/p on node n: expression: operation interrupted`
	if err := p.policies[0].check(endedMeanwhile{t.Context()}, live); err == nil || err.Error() != want {
		t.Errorf("check() = %v, want %s", err, want)
	}
}

// TestNestedComprehensionsEndByCost checks that the cost limit also ends nested comprehensions, which the context does
// not interrupt.
func TestNestedComprehensionsEndByCost(t *testing.T) {
	p := newPlugin(t, newCluster().handle(), `
bindpolicy.policies:
- name: a
  costLimit: 50000
  expression: "lists.range(3000).all(i, lists.range(3000).all(j, lists.range(3000).all(k, i + j + k >= 0)))"
`)
	want := `policy "a" cannot be evaluated for pod ns/p on node n: expression: operation cancelled: actual cost limit exceeded`
	if err := p.PreBind(t.Context(), newTask("p"), "n"); err == nil || err.Error() != want {
		t.Errorf("PreBind() = %v, want %s", err, want)
	}
}

// TestGangInParallel checks the pre-bind steps of a gang that run concurrently, in two sessions with one configuration.
// Policies are compiled only when the configuration is loaded, and members share reads of common objects.
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
	built, err := Spec().New(arguments(t, `{}`), newCluster().handle())
	if err != nil {
		t.Fatal(err)
	}
	if _, steps := built.(framework.PreBinder); steps {
		t.Error("the plugin without policies added a pre-bind step")
	}
}

// costlyPolicies returns n policies that exceed their cost limit. The plugin then ignores them.
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
