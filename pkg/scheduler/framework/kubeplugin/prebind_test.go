// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var errBroken = errors.New("it is broken")

func fateOf(minimum int) sessiontest.Fate { return sessiontest.Fate{Minimum: minimum} }

// transact places a gang of two on one node and runs its transaction under a fake clock.
func transact(t *testing.T, s *slots, fate sessiontest.Fate, meanwhile func(w *harness, tx *sessiontest.Transaction)) (w *harness, r binding.Result) {
	t.Helper()
	s.perNode = map[string]int{"n1": 2}
	w = place(t, s, conf, gangOf(2, fate.Minimum, 1))
	w.session.Close()
	w.expect(t, 2)
	synctest.Test(t, func(*testing.T) {
		tx := sessiontest.Transact(w.session, "ns/g", fate)
		if meanwhile != nil {
			synctest.Wait()
			meanwhile(w, tx)
		}
		r = tx.Wait()
		synctest.Wait()
	})
	return w, r
}

// failsFor makes PreBind fail for the pod.
func failsFor(name string, err error) func(context.Context, string) error {
	return func(_ context.Context, pod string) error {
		if pod == name {
			return err
		}
		return nil
	}
}

// TestTransactions checks that each member ends with either PostBind or Unreserve, and that no state is kept for it
// afterwards.
func TestTransactions(t *testing.T) {
	skip, refused := fwk.NewStatus(fwk.Skip), fwk.NewStatus(fwk.Unschedulable, "not now")
	hangs := func(ctx context.Context, pod string) error {
		if pod == "g-1" {
			<-ctx.Done()
			<-time.After(time.Hour) // It ignores its context.
		}
		return nil
	}
	all, none := []string{"postbind g-0 n1", "postbind g-1 n1"}, []string{"unreserve g-0 n1", "unreserve g-1 n1"}
	first := []string{"postbind g-0 n1", "unreserve g-1 n1"}
	cases := map[string]struct {
		slots     *slots
		fate      sessiontest.Fate
		meanwhile func(w *harness, tx *sessiontest.Transaction)
		want      []string
		// unprepared are the pods without a call of PreBind.
		unprepared string
		message    string
	}{
		"bound": {fate: fateOf(2), want: all},
		"PreBind fails for one of two that are needed": {slots: &slots{preBinds: failsFor("g-1", errBroken)}, fate: fateOf(2), want: none, message: "it is broken"},
		"PreBind fails for one that is not needed":     {slots: &slots{preBinds: failsFor("g-1", errBroken)}, fate: fateOf(1), want: first, message: "it is broken"},
		"PreBind panics":                       {slots: &slots{preBinds: func(context.Context, string) error { panic("oh no") }}, fate: fateOf(2), want: none, message: "oh no"},
		"PreBind hangs past its deadline":      {slots: &slots{preBinds: hangs}, fate: fateOf(2), want: none, message: "timed out after 1m0s"},
		"there is nothing to prepare":          {slots: &slots{says: when("preflight", "", "", skip)}, fate: fateOf(2), want: all, unprepared: "g-0 g-1"},
		"it says beforehand that it will fail": {slots: &slots{says: when("preflight", "g-1", "", refused)}, fate: fateOf(1), want: first, unprepared: "g-1", message: "not now"},
		"one is lost before its step begins":   {fate: sessiontest.Fate{Minimum: 2, Lost: map[string]error{"ns/g-1": binding.ErrPodGone}}, want: none, unprepared: "g-1"},
		"the bind is rejected":                 {fate: sessiontest.Fate{Minimum: 2, Rejected: map[string]bool{"ns/g-1": true}}, want: first, message: "rejected"},
		"a pod is deleted while PreBind waits": {
			slots: &slots{preBinds: hangs}, fate: fateOf(2), want: none, message: "the pod was deleted",
			meanwhile: func(_ *harness, tx *sessiontest.Transaction) { tx.Engine.Cancel("ns/g", "ns-g-1", binding.ErrPodGone) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.slots == nil {
				tc.slots = &slots{}
			}
			w, r := transact(t, tc.slots, tc.fate, tc.meanwhile)
			got := map[string]bool{}
			for _, entry := range w.did("postbind", "unreserve") {
				if got[entry] {
					t.Errorf("twice: %s", entry)
				}
				got[entry] = true
			}
			want := map[string]bool{}
			for _, entry := range tc.want {
				want[entry] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
			w.expect(t, 0)
			for pod := range strings.FieldsSeq(tc.unprepared) {
				if slices.Contains(w.did("prebind"), "prebind "+pod+" n1") {
					t.Errorf("PreBind is called for %s", pod)
				}
			}
			var messages []string
			for _, f := range r.Failed {
				messages = append(messages, f.Err.Error())
			}
			if all := strings.Join(messages, "\n"); !strings.Contains(all, tc.message) {
				t.Errorf("the failures are %q, want %q among them", all, tc.message)
			}
		})
	}
}

// TestUnreserveIsRepeated checks that Unreserve is repeated until it returns without a panic, and that the state is
// kept until then.
func TestUnreserveIsRepeated(t *testing.T) {
	failures := 3
	s := &slots{preBinds: failsFor("g-1", errBroken)}
	s.says = func(point, pod, _ string) *fwk.Status {
		if point == "unreserve" && pod == "g-1" && failures > 0 {
			failures--
			panic("not yet")
		}
		return nil
	}
	w, _ := transact(t, s, fateOf(2), nil)
	w.expect(t, 0)
	if n := len(w.did("unreserve")); n != 5 {
		t.Errorf("Unreserve is asked %d times, want 5: %v", n, w.did("unreserve"))
	}
}

// TestAnnotationsTravel checks that the Binding has the annotations that PreBind sets on its pod.
func TestAnnotationsTravel(t *testing.T) {
	w, r := transact(t, &slots{}, fateOf(2), nil)
	w.expect(t, 0)
	for _, m := range r.Bound {
		if diff := cmp.Diff(map[string]string{"slot": "taken"}, m.StagedAnnotations()); diff != "" {
			t.Errorf("staged (-want +got):\n%s", diff)
		}
	}
}

// TestPreBindNeedsAReservation checks that PreBind needs a reservation: a step that comes too late does not call the
// plugin, and its rollback has no effect.
func TestPreBindNeedsAReservation(t *testing.T) {
	w, r := transact(t, &slots{}, fateOf(2), nil)
	m := r.Bound[0]
	asked := len(w.did("prebind", "unreserve"))
	if err := w.adapted.PreBind(t.Context(), m.Task, m.Node); !errors.Is(err, errReserved) {
		t.Errorf("PreBind = %v", err)
	}
	if err := w.adapted.Rollback(t.Context(), m.Task, m.Node); err != nil {
		t.Errorf("Rollback = %v", err)
	}
	if n := len(w.did("prebind", "unreserve")); n != asked {
		t.Error("the plugin was asked")
	}
}

// TestARollbackThatIsCutOffIsRepeated checks that a rollback that is interrupted is repeated, because Unreserve
// cannot return an error.
func TestARollbackThatIsCutOffIsRepeated(t *testing.T) {
	w := place(t, &slots{perNode: map[string]int{"n1": 2}}, conf, gangOf(2, 2, 1))
	w.session.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, bind := range w.session.Handed() {
		if err := w.adapted.Rollback(ended, bind.Task, bind.Node); err == nil {
			t.Error("it counts as done")
		}
		if err := w.adapted.Rollback(t.Context(), bind.Task, bind.Node); err != nil {
			t.Error(err)
		}
	}
	w.expect(t, 0)
}

type permits struct{ slots }

func (*permits) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return nil, 0
}

type binds struct{ slots }

func (*binds) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

type sorts struct{ slots }

func (*sorts) Less(fwk.QueuedPodInfo, fwk.QueuedPodInfo) bool { return false }

type idle struct{}

func (idle) Name() string { return "Idle" }

type recovers struct{ slots }

func (*recovers) Recover(context.Context) error { return errBroken }

// closes is a plugin whose Close returns an error, which is only logged.
type closes struct {
	slots
	closed int
}

func (c *closes) Close() error {
	c.closed++
	return errBroken
}

// TestClose checks that io.Closers are closed with their configuration, and at once if they are rejected.
func TestClose(t *testing.T) {
	cluster := sessiontest.New(gangOf(1, 1, 1))
	defer cluster.Close()
	taken := &closes{}
	made, err := New(slotsName, cluster.Handle(), func(k8sframework.Handle) (k8sframework.Plugin, error) { return taken, nil })
	if err != nil || taken.closed != 0 {
		t.Fatalf("closed %d times at the creation, %v", taken.closed, err)
	}
	made.(framework.Closer).Close()
	refused := &closesAndPermits{}
	if _, err := New(slotsName, cluster.Handle(), func(k8sframework.Handle) (k8sframework.Plugin, error) { return refused, nil }); err == nil {
		t.Error("it is not refused")
	}
	if taken.closed != 1 || refused.closed != 1 {
		t.Errorf("closed %d times, and the rejected one %d times; want once each", taken.closed, refused.closed)
	}
}

type closesAndPermits struct {
	permits
	closed int
}

func (c *closesAndPermits) Close() error {
	c.closed++
	return nil
}

// TestPluginsMakeClientsOfTheirOwn checks that plugins can create clients with the scheduler's REST config.
func TestPluginsMakeClientsOfTheirOwn(t *testing.T) {
	cluster := sessiontest.New(gangOf(1, 1, 1))
	defer cluster.Close()
	var host string
	_, err := New(slotsName, cluster.Handle(), func(h k8sframework.Handle) (k8sframework.Plugin, error) {
		host = h.KubeConfig().Host
		return &slots{}, nil
	})
	if want := cluster.Handle().RestConfig().Host; err != nil || host != want {
		t.Errorf("the host is %q, want %q: %v", host, want, err)
	}
}

// TestNew checks that a plugin with an extension point that is never called is rejected, and that a plugin that
// recovers is a Recoverer.
func TestNew(t *testing.T) {
	in := gangOf(1, 1, 1)
	cluster := sessiontest.New(in)
	defer cluster.Close()
	cases := map[string]struct {
		build Factory
		opts  []Option
		want  string
	}{
		"slots":       {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &slots{}, nil }},
		"Permit":      {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &permits{}, nil }, want: "implements Permit"},
		"Bind":        {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &binds{}, nil }, want: "implements Bind"},
		"QueueSort":   {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &sorts{}, nil }, want: "implements QueueSort"},
		"no point":    {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return idle{}, nil }, want: "no supported extension point"},
		"no plugin":   {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return nil, nil }, want: "no plugin"},
		"an error":    {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return nil, errBroken }, want: "it is broken"},
		"a panic":     {build: func(h k8sframework.Handle) (k8sframework.Plugin, error) { h.Extenders(); return nil, nil }, want: "panicked"},
		"a weight":    {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &slots{}, nil }, opts: []Option{WithWeight(-1)}, want: "weight is -1"},
		"recoverable": {build: func(k8sframework.Handle) (k8sframework.Plugin, error) { return &recovers{}, nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			made, err := New(slotsName, cluster.Handle(), tc.build, tc.opts...)
			if tc.want == "" {
				recoverer, is := made.(framework.Recoverer)
				if err != nil || is != (name == "recoverable") || is && !errors.Is(recoverer.Recover(t.Context()), errBroken) {
					t.Errorf("got %T, %v", made, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "plugin slots: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
