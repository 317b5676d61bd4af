// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reserver is a plugin that records reservations in a trace. refuses and panics name tasks.
type reserver struct {
	trace           *trace
	name            string
	refuses, panics string
	unreservePanics bool
}

var errNone = errors.New("there is none left")

func (r *reserver) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	r.trace.add("%s: %s on %s", r.name, task.Name, node.Name)
	switch task.Name {
	case r.panics:
		panic("oh no")
	case r.refuses:
		return errNone
	}
	return nil
}

func (r *reserver) Unreserve(task *api.TaskInfo) {
	r.trace.add("%s: not %s", r.name, task.Name)
	if r.unreservePanics {
		panic("oh no")
	}
}

func (r *reserver) PreBind(_ context.Context, task *api.TaskInfo, node string) error {
	r.trace.add("%s: prepare %s for %s", r.name, task.Name, node)
	return nil
}

func (r *reserver) Rollback(_ context.Context, task *api.TaskInfo, node string) error {
	r.trace.add("%s: undo %s on %s", r.name, task.Name, node)
	return nil
}

func (r *reserver) Name() string          { return r.name }
func (*reserver) OnSessionOpen(*Session)  {}
func (*reserver) OnSessionClose(*Session) {}

// observer is a reserver that is notified of bound tasks.
type observer struct{ *reserver }

func (o observer) PreBindOptions() []PreBindOption {
	return []PreBindOption{WithBound(func(_ context.Context, task *api.TaskInfo, node string) { o.trace.add("%s is on %s", task.Name, node) })}
}

// reserving opens a session with the reservers a and b.
func reserving(t *testing.T, a, b *reserver, disabled map[string]bool) (*trace, *Registry, *recordingCache, *Session) {
	t.Helper()
	tr, registry, k := &trace{}, NewRegistry(), newRecordingCache(t)
	for name, r := range map[string]*reserver{"a": a, "b": b} {
		r.trace, r.name = tr, name
		registry.RegisterPlugin(PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) { return r, nil })})
	}
	return tr, registry, k, open(t, registry, k, ProfileInput{Tiers: []conf.Tier{tier("a", "b")}, PreBindDisabled: disabled})
}

func taskNamed(ssn *Session, name string) *api.TaskInfo {
	for _, task := range ssn.Jobs["ns/g"].Tasks {
		if task.Name == name {
			return task
		}
	}
	return nil
}

// TestReservers checks that all plugins or none reserve once for each placement, and that reservations without a
// commit are released in reverse order.
func TestReservers(t *testing.T) {
	both := []string{"a: p0 on n", "b: p0 on n"}
	bothBack := slices.Concat(both, []string{"b: not p0", "a: not p0"})
	place := func(ssn *Session) (*vcframework.Statement, error) {
		s := vcframework.NewStatement(ssn.Session)
		return s, s.Allocate(taskNamed(ssn, "p0"), ssn.Nodes["n"])
	}
	takenBack := func(_ *testing.T, ssn *Session) {
		s, err := place(ssn)
		if err != nil {
			_ = s.UnAllocate(taskNamed(ssn, "p0"))
			return
		}
		s.Discard()
	}
	cases := map[string]struct {
		a, b     reserver
		disabled map[string]bool
		act      func(t *testing.T, ssn *Session)
		want     []string
	}{
		"taken back":                        {act: takenBack, want: bothBack},
		"taken back, and one plugin panics": {b: reserver{unreservePanics: true}, act: takenBack, want: bothBack},
		"tried twice": {
			act:  func(t *testing.T, ssn *Session) { takenBack(t, ssn); takenBack(t, ssn) },
			want: slices.Concat(bothBack, bothBack),
		},
		"waiting for room, and not handed over": {
			act: func(t *testing.T, ssn *Session) {
				if err := vcframework.NewStatement(ssn.Session).Pipeline(taskNamed(ssn, "p0"), "n", true); err != nil {
					t.Error(err)
				}
			},
			want: bothBack,
		},
		"placed by an action that does not finish": {
			act: func(t *testing.T, ssn *Session) {
				if _, err := place(ssn); err != nil {
					t.Error(err)
				}
			},
			want: bothBack,
		},
		"handed over":                       {act: commit, want: both},
		"refused by the second":             {b: reserver{refuses: "p0"}, act: takenBack, want: slices.Concat(both, []string{"a: not p0"})},
		"refused by the first":              {a: reserver{refuses: "p0"}, act: takenBack, want: both[:1]},
		"the second panics":                 {b: reserver{panics: "p0"}, act: takenBack, want: bothBack},
		"a plugin whose steps are left out": {disabled: map[string]bool{"a": true}, act: commit, want: both[1:]},
		"an eviction that is taken back": {
			act: func(t *testing.T, ssn *Session) {
				task := taskNamed(ssn, "p0")
				task.Pod.Spec.NodeName, task.NodeName = "n", "n"
				if err := ssn.Jobs["ns/g"].UpdateTaskStatus(task, api.Running); err != nil {
					t.Error(err)
				}
				if err := ssn.Nodes["n"].AddTask(task); err != nil {
					t.Error(err)
				}
				s := vcframework.NewStatement(ssn.Session)
				if err := s.Evict(task, "for another"); err != nil {
					t.Error(err)
				}
				s.Discard()
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tr, registry, _, ssn := reserving(t, &tc.a, &tc.b, tc.disabled)
			tc.act(t, ssn)
			registry.CloseSession(ssn)
			if diff := cmp.Diff(tc.want, tr.list); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
			if n := len(ssn.reservers.reserved); n > 0 {
				t.Errorf("the session still keeps %d tasks", n)
			}
		})
	}
}

// TestErrorOfReserveNamesThePlugin checks that the error of a reservation names the plugin and contains its own
// error.
func TestErrorOfReserveNamesThePlugin(t *testing.T) {
	_, registry, _, ssn := reserving(t, &reserver{}, &reserver{refuses: "p0"}, nil)
	defer registry.CloseSession(ssn)
	err := ssn.reservers.reserve(taskNamed(ssn, "p0"), ssn.Nodes["n"])
	if !errors.Is(err, errNone) || !strings.HasPrefix(err.Error(), "plugin b: reserving for pod ns/p0 on node n: ") {
		t.Errorf("got %v", err)
	}
}

// TestATaskWithoutItsReservationIsNotHandedOver checks that a task without its reservation is not committed.
// Upstream's Session.Allocate, which backfill calls, does not check whether plugins refused the placement.
func TestATaskWithoutItsReservationIsNotHandedOver(t *testing.T) {
	for name, refuses := range map[string]string{"refused": "p0", "taken": ""} {
		t.Run(name, func(t *testing.T) {
			tr, registry, k, ssn := reserving(t, &reserver{}, &reserver{refuses: refuses}, nil)
			err := ssn.Allocate(taskNamed(ssn, "p0"), ssn.Nodes["n"])
			registry.CloseSession(ssn)
			if _, committed := k.members["p0"]; committed != (refuses == "") || (err == nil) != committed {
				t.Errorf("committed: %v, with error %v", committed, err)
			}
			want := []string{"a: p0 on n", "b: p0 on n", "a: not p0"}
			if refuses == "" {
				want = want[:2]
			}
			if diff := cmp.Diff(want, tr.list); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHandedOverMembersUndoStepsThatDidNotRun checks that committed members roll back steps that did not run, even if
// the session's status of the task becomes Pending again afterwards.
func TestHandedOverMembersUndoStepsThatDidNotRun(t *testing.T) {
	tr, registry, k, ssn := reserving(t, &reserver{}, &reserver{}, nil)
	commit(t, ssn)
	if err := vcframework.NewStatement(ssn.Session).UnAllocate(taskNamed(ssn, "p0")); err != nil {
		t.Fatal(err)
	}
	registry.CloseSession(ssn)
	for _, step := range k.members["p0"] {
		if !step.RollbackIfNotRun {
			t.Errorf("step of %s is not undone for members that it has not begun for", step.Plugin)
		}
	}
	walk(t, k.members["p0"])
	want := []string{"a: p0 on n", "b: p0 on n", "a: prepare p0 for n", "b: prepare p0 for n", "b: undo p0 on n", "a: undo p0 on n"}
	if diff := cmp.Diff(want, tr.list); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
}

// TestReservationsOfAPanickedSessionAreReleased checks that the reservations of a session that panicked are released,
// including reservations of tasks without claims.
func TestReservationsOfAPanickedSessionAreReleased(t *testing.T) {
	tr, registry, _, ssn := reserving(t, &reserver{}, &reserver{}, nil)
	if err := vcframework.NewStatement(ssn.Session).Allocate(taskNamed(ssn, "p0"), ssn.Nodes["n"]); err != nil {
		t.Fatal(err)
	}
	registry.UndoPlacements()
	if diff := cmp.Diff([]string{"a: p0 on n", "b: p0 on n", "b: not p0", "a: not p0"}, tr.list); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
}

// TestBoundIsPartOfTheStep checks that a plugin's function for bound tasks is part of the step in the transaction.
func TestBoundIsPartOfTheStep(t *testing.T) {
	tr, registry, k := &trace{}, NewRegistry(), newRecordingCache(t)
	registry.RegisterPlugin(PluginSpec{Name: "a", Load: WithoutArguments(func(Handle) (Plugin, error) { return observer{&reserver{trace: tr, name: "a"}}, nil })})
	ssn := open(t, registry, k, ProfileInput{Tiers: []conf.Tier{tier("a")}})
	commit(t, ssn)
	registry.CloseSession(ssn)
	k.members["p0"][0].Bound(t.Context(), api.NewTaskInfo(schedtest.MakePod().Name("p0").Group("g").Obj()), "n")
	if diff := cmp.Diff([]string{"a: p0 on n", "p0 is on n"}, tr.list); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}
