// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// steps returns a plugin that adds n steps. Each step records events in the trace.
func steps(name string, n int, tr *trace) PluginSpec {
	return spec(name, func(ssn *Session) {
		for range n {
			ssn.AddPreBindFn(name, func(task *api.TaskInfo, node string) error {
				tr.add("%s %s on %s", name, task.Name, node)
				return nil
			}, WithRollback(func(_ context.Context, task *api.TaskInfo, node string) error {
				tr.add("-%s %s on %s", name, task.Name, node)
				return nil
			}))
		}
	})
}

// TestRegressionMapOrder covers upstream's defect map-order: upstream runs pre-binders and rollbacks in the order of a
// Go map. Here they always run in the order of the plugins in the configuration, over all tiers, with upstream's
// PreBinders in their places.
func TestRegressionMapOrder(t *testing.T) {
	const upstream = "zz-upstream"
	all := []conf.Tier{tier("echo", "alpha"), tier(upstream, "delta", "bravo")}
	tests := map[string]struct {
		disabled map[string]bool
		want     []string
	}{
		"all": {want: []string{
			"echo p0 on n", "alpha p0 on n", "alpha p0 on n", "zz-upstream p0: claim of p0", "delta p0 on n", "bravo p0 on n",
			"-bravo p0 on n", "-delta p0 on n", "-zz-upstream p0: claim of p0", "-alpha p0 on n", "-alpha p0 on n", "-echo p0 on n",
		}},
		"enablePreBind: false leaves steps out": {disabled: map[string]bool{"alpha": true, upstream: true}, want: []string{
			"echo p0 on n", "delta p0 on n", "bravo p0 on n", "-bravo p0 on n", "-delta p0 on n", "-echo p0 on n",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				tr, r, k := &trace{}, NewRegistry(), newRecordingCache(t)
				r.RegisterPlugin(steps("alpha", 2, tr))
				for _, plugin := range []string{"bravo", "delta", "echo"} {
					r.RegisterPlugin(steps(plugin, 1, tr))
				}
				vcframework.RegisterPluginBuilder(upstream, func(vcframework.Arguments) vcframework.Plugin {
					return &upstreamPlugin{name: upstream, trace: tr}
				})
				ssn := open(t, r, k, ProfileInput{Tiers: all, PreBindDisabled: tt.disabled})
				commit(t, ssn)
				r.CloseSession(ssn) // The steps outlive the session.
				walk(t, k.members["p0"])
				if diff := cmp.Diff(tt.want, tr.list); diff != "" {
					t.Fatalf("trace (-want +got):\n%s", diff)
				}
			}
		})
	}
}

type preBinder struct{ trace *trace }

func (p preBinder) PreBind(context.Context, *api.TaskInfo, string) error {
	p.trace.add("do")
	return nil
}

type timed struct{ preBinder }

func (timed) PreBindOptions() []PreBindOption { return []PreBindOption{WithTimeout(time.Hour)} }

func (p preBinder) Rollback(context.Context, *api.TaskInfo, string) error {
	p.trace.add("undo")
	return nil
}

func TestStepOptions(t *testing.T) {
	nothing := func(*api.TaskInfo, string) error { return nil }
	undo := func(context.Context, *api.TaskInfo, string) error { return nil }
	tests := map[string]struct {
		add      func(ssn *Session)
		timeout  time.Duration
		rollback bool
		unbegun  bool
	}{
		"a function without options": {add: func(ssn *Session) { ssn.AddPreBindFn("p", nothing) }, timeout: DefaultStepTimeout},
		"a function with an undo and a timeout": {add: func(ssn *Session) {
			ssn.AddPreBindFn("p", nothing, WithTimeout(time.Second), WithRollback(undo))
		}, timeout: time.Second, rollback: true},
		"a PreBinder":                {add: func(ssn *Session) { ssn.chain.addPreBinder("p", preBinder{&trace{}}, false) }, timeout: DefaultStepTimeout, rollback: true},
		"a PreBinder with a timeout": {add: func(ssn *Session) { ssn.chain.addPreBinder("p", timed{}, false) }, timeout: time.Hour, rollback: true},
		"an upstream PreBinder has the time upstream gives volumes": {add: func(ssn *Session) {
			ssn.chain.upstream["p"] = &upstreamPlugin{name: "p", trace: &trace{}}
		}, timeout: upstreamStepTimeout, rollback: true, unbegun: true},
		"a PreBinder whose plugin reserves": {add: func(ssn *Session) {
			ssn.chain.addPreBinder("p", preBinder{&trace{}}, true)
		}, timeout: DefaultStepTimeout, rollback: true, unbegun: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := newSession([]string{"p"})
			tt.add(ssn)
			chain := ssn.chain.of(nil)
			if len(chain) != 1 {
				t.Fatalf("%d steps, want 1", len(chain))
			}
			got := chain[0]
			if got.Plugin != "p" || got.Timeout != tt.timeout || (got.Rollback != nil) != tt.rollback || got.RollbackIfNotRun != tt.unbegun {
				t.Errorf("step of %s, timeout %v, undo %v, unbegun %v; want p, %v, %v, %v",
					got.Plugin, got.Timeout, got.Rollback != nil, got.RollbackIfNotRun, tt.timeout, tt.rollback, tt.unbegun)
			}
		})
	}
}

// TestLateStepIsIgnored checks that a late step is ignored. Members of one gang run the same chain, so a step that is
// added after the first member has its chain has no effect.
func TestLateStepIsIgnored(t *testing.T) {
	tr := &trace{}
	ssn := newSession([]string{"p"})
	ssn.chain.addPreBinder("p", preBinder{tr}, false)
	first := ssn.chain.of(nil)
	ssn.chain.addPreBinder("p", preBinder{tr}, false)
	if second := ssn.chain.of(nil); len(first) != 1 || len(second) != 1 {
		t.Errorf("chains of %d and %d steps, want 1 and 1", len(first), len(second))
	}
}

func TestPluginWithoutAPlaceInTheConfHasNoSteps(t *testing.T) {
	ssn := newSession([]string{"other"})
	ssn.chain.addPreBinder("p", preBinder{&trace{}}, false)
	if got := ssn.chain.of(nil); len(got) != 0 {
		t.Errorf("%d steps, want none", len(got))
	}
}

// TestPanicIsThatPluginsError checks that a panic in a plugin fails the task with the plugin's name, and does not end
// the scheduler.
func TestPanicIsThatPluginsError(t *testing.T) {
	tests := map[string]struct {
		add func(ssn *Session)
		run func(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) error
	}{
		"predicate": {
			add: func(ssn *Session) {
				ssn.AddPredicateFn("bad", func(*api.TaskInfo, *api.NodeInfo) error { panic("oh no") })
			},
			run: func(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) error { return ssn.PredicateFn(task, node) },
		},
		"predicate in allocate": {
			add: func(ssn *Session) {
				ssn.AddPredicateFn("bad", func(*api.TaskInfo, *api.NodeInfo) error { panic("oh no") })
			},
			run: func(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) error {
				return ssn.PredicateForAllocateAction(task, node)
			},
		},
		"pre-predicate": {
			add: func(ssn *Session) {
				ssn.AddPrePredicateFn("bad", func(*api.TaskInfo) error { panic("oh no") })
			},
			run: func(ssn *Session, task *api.TaskInfo, _ *api.NodeInfo) error { return ssn.PrePredicateFn(task) },
		},
		"node order": {
			add: func(ssn *Session) {
				ssn.AddNodeOrderFn("bad", func(*api.TaskInfo, *api.NodeInfo) (float64, error) { panic("oh no") })
			},
			run: func(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) error {
				_, err := ssn.NodeOrderFn(task, node)
				return err
			},
		},
		"batch node order": {
			add: func(ssn *Session) {
				ssn.AddBatchNodeOrderFn("bad", func(*api.TaskInfo, []*api.NodeInfo) (map[string]float64, error) { panic("oh no") })
			},
			run: func(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) error {
				_, err := ssn.BatchNodeOrderFn(task, []*api.NodeInfo{node})
				return err
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, k := NewRegistry(), newRecordingCache(t)
			r.RegisterPlugin(spec("bad", tt.add))
			ssn := open(t, r, k, ProfileInput{Tiers: []conf.Tier{tier("bad")}})
			defer r.CloseSession(ssn)
			task := api.NewTaskInfo(schedtest.MakePod().Name("p0").Group("g").Obj())
			err := tt.run(ssn, task, ssn.Nodes["n"])
			if err == nil || !strings.Contains(err.Error(), "plugin bad panicked: oh no") {
				t.Errorf("error is %v, want one with the plugin's name", err)
			}
		})
	}
}

// TestStepsRunOnTheTaskTheyAreGiven checks that steps run on the task that they are given: upstream's PreBinders get
// the engine's own task and the state that their plugin kept for it.
func TestStepsRunOnTheTaskTheyAreGiven(t *testing.T) {
	tr := &trace{}
	k := newRecordingCache(t)
	r := NewRegistry()
	vcframework.RegisterPluginBuilder("up", func(vcframework.Arguments) vcframework.Plugin { return &upstreamPlugin{name: "up", trace: tr} })
	ssn := open(t, r, k, ProfileInput{Tiers: []conf.Tier{tier("up")}})
	commit(t, ssn)
	own := api.NewTaskInfo(schedtest.MakePod().Name("copy").Group("g").Obj())
	if err := k.members["p0"][0].PreBind(t.Context(), own, "n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"up copy: claim of p0"}, tr.list); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

// TestOnlyWhatTheSessionSetIsDecided checks that only annotations that the session set are staged. The cache may have
// a newer pod than the session's snapshot, and the Binding must not revert a user's change.
func TestOnlyWhatTheSessionSetIsDecided(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	r.RegisterPlugin(spec("decider", func(ssn *Session) {
		for _, task := range ssn.Jobs["ns/g"].Tasks {
			own := task.Pod.DeepCopy()
			own.Annotations["device"] = "3"
			task.Pod = own
		}
	}))
	ssn := open(t, r, k, ProfileInput{Tiers: []conf.Tier{tier("decider")}})
	commit(t, ssn)
	if diff := cmp.Diff(map[string]string{"device": "3"}, k.decided["p0"]); diff != "" {
		t.Errorf("decided annotations (-want +got):\n%s", diff)
	}
}

// TestNoDevicesCostNothing checks that sessions without devices have no overhead: plugins get the client itself, and
// no handler is called.
func TestNoDevicesCostNothing(t *testing.T) {
	k := newRecordingCache(t)
	ssn := open(t, NewRegistry(), k, ProfileInput{})
	if ssn.KubeClient() != k.Client() {
		t.Errorf("plugins get the client %T", ssn.KubeClient())
	}
}
