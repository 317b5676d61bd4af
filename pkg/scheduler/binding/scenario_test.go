// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // The tests provoke the logged errors.
	os.Exit(m.Run())
}

const gang api.JobID = "ns/gang"

// scenario has one gang whose pods p0, p1, ... are placed on nodes n0, n1, ...
type scenario struct {
	minimum int
	pods    []script
	gate    []error
	opts    []Option
	// events are run at these times after the submission of the transaction.
	events map[time.Duration]func(t *testing.T, w *harness)
	// want is the trace of each pod: the name of a step, -name for its rollback, and a ! after one that failed.
	want []string
	// took is how long the transaction takes. 0 means that the test does not check it.
	took time.Duration
}

// play runs the scenario to its end in a synctest bubble.
func (s scenario) play(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(s.opts...)
		w.minimum[gang], w.gate = s.minimum, s.gate
		if err := w.submit(gang, w.members(gang, s.pods...)...); err != nil {
			t.Fatal(err)
		}
		for at, do := range s.events {
			time.AfterFunc(at, func() { do(t, w) })
		}
		w.drain(t)
		if diff := cmp.Diff(s.want, w.traces()); diff != "" {
			t.Errorf("unexpected traces (-want +got):\n%s", diff)
		}
		if got := w.results[0].Took; s.took > 0 && got != s.took {
			t.Errorf("took %v, want %v", got, s.took)
		}
		w.noViolations(t)
	})
}

func playAll(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) { s.play(t) })
	}
}

// members returns pods p0, p1, ... on nodes n0, n1, ...
func (w *harness) members(gang api.JobID, scripts ...script) []*Member {
	var members []*Member
	for i, s := range scripts {
		members = append(members, w.member(gang, fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), s))
	}
	return members
}

// drain waits until all transactions have ended without an abort.
func (w *harness) drain(t *testing.T) {
	t.Helper()
	if err := w.engine.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// steps returns steps of these plugins that succeed.
func steps(plugins ...string) []act {
	var acts []act
	for _, plugin := range plugins {
		acts = append(acts, act{plugin: plugin})
	}
	return acts
}

// then appends a step.
func then(acts []act, last act) []act { return append(acts, last) }

// traceIs returns an event that checks a pod's trace.
func traceIs(id api.TaskID, want string) func(*testing.T, *harness) {
	return func(t *testing.T, w *harness) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := trace(w.pods[id]); got != want {
			t.Errorf("trace of %s is %q, want %q", id, got, want)
		}
	}
}
