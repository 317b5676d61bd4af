// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

func TestBind(t *testing.T) {
	one := func(binds []reply, lookups []error, want string) scenario {
		return scenario{
			minimum: 1,
			pods:    []script{{steps: steps("a"), binds: binds, lookups: lookups}},
			want:    []string{want},
		}
	}
	scenarios := map[string]scenario{
		"applied but the answer lost: a read finds it bound": one(
			[]reply{{err: errCut}}, nil, "a bind lookup bound"),
		"not applied and the answer lost: a read tells, and it is sent again": one(
			[]reply{{err: errCut, lost: true}}, nil, "a bind lookup bind bound"),
		"the write arrives after the error": one(
			[]reply{{err: errTimeout, late: 50 * time.Millisecond}}, nil, "a bind lookup bound"),
		"a read that fails is tried again, nothing is guessed": one(
			[]reply{{err: errCut}}, slices.Repeat([]error{errServer}, 20),
			"a bind"+strings.Repeat(" lookup", 21)+" bound"),
		"no answer by the deadline of the call": one(
			[]reply{{takes: time.Hour}}, nil, "a bind lookup bind bound"),
		"server error": one(
			[]reply{{err: errServer, lost: true}, {err: errGateway, lost: true}}, nil, "a bind lookup bind lookup bind bound"),
		"throttled: not applied for sure, so nothing is read": one(
			[]reply{{err: errThrottled, lost: true}}, nil, "a bind bind bound"),
		"unauthorized: not applied for sure, so nothing is read, and the client may get a new token": one(
			[]reply{{err: errUnauthorized, lost: true}}, nil, "a bind bind bound"),
		"a read that finds the pod on its node and being deleted": one(
			[]reply{{err: errCut, terminates: true}}, nil, "a bind lookup bound"),
		"a read that finds the pod on no node and being deleted": one(
			[]reply{{err: errCut, lost: true, terminates: true}}, nil, "a bind lookup -a released(pod gone)"),
		"conflict with another writer of the pod": one(
			[]reply{{err: errConflict, lost: true}}, nil, "a bind lookup bind bound"),
		"conflict because another scheduler was first": one(
			[]reply{{overtaken: true}}, nil, "a bind lookup -a released(bind failed)"),
		"conflict because another scheduler chose the same node": one(
			[]reply{{overtaken: true, here: true}}, nil, "a bind lookup -a released(bind failed)"),
		"conflict with an own Binding that arrived unseen": one(
			[]reply{{err: errCut, late: 5 * time.Second}, {takes: 10 * time.Second}}, nil, "a bind lookup bind lookup bound"),
		"forbidden by an API server that starts": one(
			slices.Repeat([]reply{{err: errForbidden}}, 6), nil, "a"+strings.Repeat(" bind", 7)+" bound"),
		"forbidden for good": one(
			slices.Repeat([]reply{{err: errForbidden}}, 8), nil, "a"+strings.Repeat(" bind", 7)+" -a released(bind failed)"),
		"forbidden by the last of many tries": {
			minimum: 1,
			opts:    []Option{withBindRetry(2, defaultOptions().retry)},
			pods:    []script{{steps: steps("a"), binds: []reply{{err: errThrottled, lost: true}, {err: errForbidden}}}},
			want:    []string{"a bind bind bind bound"},
		},
		"forbidden now and then: it counts from the first of a row": one(
			[]reply{{err: errForbidden}, {err: errThrottled, lost: true}, {err: errForbidden}}, nil, "a bind bind bind bind bound"),
		"invalid for good":                   one([]reply{{err: errInvalid}}, nil, "a bind -a released(bind failed)"),
		"not found, and a read finds no pod": one([]reply{{err: errNotFound}}, []error{errNotFound}, "a bind lookup -a released(pod gone)"),
		"not found, as an admission webhook says, although the pod exists": one(
			[]reply{{err: errNotFound}}, nil, "a bind lookup -a released(bind failed)"),
		"rejected after an unclear answer that had been applied": one(
			[]reply{{err: errCut, late: 5 * time.Second}, {takes: 10 * time.Second, err: errInvalid}}, nil, "a bind lookup bind lookup bound"),
		"a read that finds no pod": one(
			[]reply{{err: errCut, lost: true}}, []error{errNotFound}, "a bind lookup -a released(pod gone)"),
		"tries have an end": {
			minimum: 1,
			opts:    []Option{withBindRetry(3, defaultOptions().retry)},
			pods:    []script{{steps: steps("a"), binds: slices.Repeat([]reply{{err: errServer, lost: true}}, 5)}},
			want:    []string{"a bind lookup bind lookup bind lookup -a released(bind failed)"},
		},
		"a bind rejected for good rolls that member back alone": {
			minimum: 2,
			pods:    []script{{steps: steps("a")}, {steps: steps("a"), binds: []reply{{err: errInvalid}}}},
			want:    []string{"a bind bound", "a bind -a released(bind failed)"},
		},
	}
	playAll(t, scenarios)
}

func TestBindHonoursRetryAfter(t *testing.T) {
	scenario{
		minimum: 1,
		pods:    []script{{binds: []reply{{err: errThrottled, lost: true}}}},
		events: map[time.Duration]func(*testing.T, *harness){
			7*time.Second - 1: traceIs("p0", "bind"),
		},
		want: []string{"bind bind bound"},
		took: 7 * time.Second,
	}.play(t)
}

func TestBindIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(withBindParallelism(8))
		slow := script{binds: []reply{{takes: 900 * time.Millisecond}}}
		if err := w.submit(gang, w.members(gang, slow, slow, slow, slow, slow)...); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		if got, want := w.results[0].Took, 1800*time.Millisecond; got != want {
			t.Errorf("five binds of 900 ms, four at a time of 8 slots, took %v, want %v", got, want)
		}
	})
}

func TestResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		w.minimum[gang] = 1
		members := w.members(gang,
			script{binds: []reply{{takes: time.Second}}},
			script{steps: []act{{plugin: "a", err: errStep}}},
			script{binds: []reply{{takes: time.Second, err: errInvalid}}})
		if err := w.submit(gang, members...); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		want := Result{
			Gang:  gang,
			Gangs: []api.JobID{gang},
			Bound: members[:1],
			Failed: []Failure{
				{Member: members[1], Err: &StepError{Plugin: "a", Pod: "ns/p1", Node: "n1", Err: errStep}},
				{Member: members[2], Err: &BindError{Pod: "ns/p2", Node: "n2", Err: errInvalid}},
			},
			Took: time.Second,
		}
		same := cmp.Comparer(func(a, b *Member) bool { return a == b })
		text := cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
		if diff := cmp.Diff(want, w.results[0], same, text); diff != "" {
			t.Errorf("unexpected result (-want +got):\n%s", diff)
		}
	})
}

func TestNoQuorumResultNamesMissingMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		w.minimum[gang] = 3
		if err := w.submit(gang, w.members(gang, script{}, script{})...); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		r := w.results[0]
		if r.QuorumErr == nil || r.QuorumErr.Error() != "gang ns/gang has 2 of 3" || len(r.Failed) != 2 {
			t.Fatalf("unexpected result %+v", r)
		}
		for _, f := range r.Failed {
			if !errors.Is(f.Err, ErrNoQuorum) || !errors.Is(f.Err, r.QuorumErr) {
				t.Errorf("failure %v does not wrap the reason", f.Err)
			}
		}
	})
}

// TestStagedAnnotationsIncludeExistingAnnotations checks that an annotation that the pod already has is staged too,
// because it may be removed before the pod is bound.
func TestStagedAnnotationsIncludeExistingAnnotations(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"same": "v", "other": "v"}}}
	m := NewMember(api.NewTaskInfo(pod), "n", nil)
	m.Stage("same", "v")
	m.Stage("new", "w")
	if diff := cmp.Diff(map[string]string{"same": "v", "new": "w"}, m.StagedAnnotations()); diff != "" {
		t.Errorf("staged (-want +got):\n%s", diff)
	}
}

func TestStagedAnnotationsComeFromTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		m := w.member(gang, "p", "n", script{steps: steps("a")})
		if err := w.submit(gang, m); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		if diff := cmp.Diff(map[string]string{"a": "n"}, m.StagedAnnotations()); diff != "" {
			t.Errorf("unexpected annotations (-want +got):\n%s", diff)
		}
	})
}
