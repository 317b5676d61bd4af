// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestReleasedAndBoundKeepTheBooks(t *testing.T) {
	released := func(w *harness, m *binding.Member) { w.Released(m, errBroken) }
	bound := func(w *harness, m *binding.Member) { w.Bound(m) }
	tests := map[string]struct {
		meanwhile func(w *harness)
		do        func(w *harness, m *binding.Member)
		want      string
		idle      float64
	}{
		"released frees the node":              {do: released, want: "Pending", idle: 8000},
		"bound keeps the node":                 {do: bound, want: "Bound on n", idle: 7000},
		"released of a pod deleted meanwhile":  {meanwhile: func(w *harness) { w.remove(pod(0).Obj()) }, do: released, want: "unknown", idle: 8000},
		"bound of a pod deleted meanwhile":     {meanwhile: func(w *harness) { w.remove(pod(0).Obj()) }, do: bound, want: "unknown", idle: 8000},
		"released of a gang deleted meanwhile": {meanwhile: func(w *harness) { w.remove(schedtest.MakePodGroup().Name("g").Obj()) }, do: released, want: "Pending", idle: 8000},
		"bound after the informer showed it":   {meanwhile: func(w *harness) { w.add(pod(0).Node("n").Obj()) }, do: bound, want: "Bound on n", idle: 7000},
		"bound of a pod that runs already":     {meanwhile: func(w *harness) { w.add(pod(0).Node("n").Phase(v1.PodRunning).Obj()) }, do: bound, want: "Running on n", idle: 7000},
		"released of a pod another one bound": {meanwhile: func(w *harness) {
			w.add(schedtest.MakeNode().Name("m").Obj())
			w.add(pod(0).Node("m").Obj())
		}, do: released, want: "Bound on m", idle: 8000},
		"released of a pod another one bound there": {
			meanwhile: func(w *harness) { w.add(pod(0).Node("n").Obj()) }, do: released, want: "Bound on n", idle: 7000,
		},
		"released of a pod replaced meanwhile": {meanwhile: func(w *harness) {
			w.remove(pod(0).Obj())
			w.add(pod(0).UID("new").Obj())
		}, do: released, want: "Pending", idle: 8000},
		"released after the node was deleted": {meanwhile: func(w *harness) {
			w.remove(schedtest.MakeNode().Name("n").Obj())
			w.add(schedtest.MakeNode().Name("n").Obj())
		}, do: released, want: "Pending", idle: 8000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				m := w.reserved()
				if tt.meanwhile != nil {
					tt.meanwhile(w)
				}
				for range 2 { // The engine reports once. A second report must do no harm.
					tt.do(w, m)
					if diff := cmp.Diff(tt.want, w.booked("p0")); diff != "" {
						t.Errorf("books (-want +got):\n%s", diff)
					}
					if got := w.idleCPU("n"); got != tt.idle {
						t.Errorf("%v milli-cpu are idle on the node, want %v", got, tt.idle)
					}
				}
			})
		})
	}
}

// TestReleasedCatchesUp checks that a pod that is resized while it is being bound counts with the requests that were
// reserved, and with its new requests after its release.
func TestReleasedCatchesUp(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		m := w.reserved()
		w.add(pod(0).Req(schedtest.Resources{"cpu": "2"}).Annotation("a", "new").Obj())
		if got := w.idleCPU("n"); got != 7000 {
			t.Errorf("%v milli-cpu are idle while the changed pod is being bound, want 7000", got)
		}
		w.Released(m, errBroken)
		task := w.task("p0")
		if task.Resreq.MilliCPU != 2000 || task.Pod.Annotations["a"] != "new" || task.Status != api.Pending {
			t.Errorf("released task is %s, requests %v milli-cpu and has annotations %v", task.Status, task.Resreq.MilliCPU, task.Pod.Annotations)
		}
	})
}

func TestReleasedCallsTheBindErrorHandler(t *testing.T) {
	tests := map[string]func() error{
		"that fails":  func() error { return errBroken },
		"that panics": func() error { panic("oh no") },
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				calls := 0
				decided := w.decided()
				decided.CustomBindErrHandler = func() error {
					calls++
					return handler()
				}
				bad := binding.Step{Plugin: "bad", PreBind: func(context.Context, *api.TaskInfo, string) error { return errBroken }}
				if err := w.Add(decided, nil, nil, []binding.Step{bad}); err != nil {
					t.Fatal(err)
				}
				w.Seal()
				synctest.Wait()
				if calls != 1 {
					t.Errorf("the handler was called %d times, want once", calls)
				}
				if diff := cmp.Diff("Pending", w.booked("p0")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
			})
		})
	}
}
