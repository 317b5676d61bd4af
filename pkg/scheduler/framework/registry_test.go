// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
)

// counted is a plugin that counts how often it was built and opened.
func counted(name string, built, opened *int) PluginSpec {
	return PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) {
		*built++
		return &fake{name, func(*Session) { *opened++ }}, nil
	})}
}

func TestPluginIsBuiltOncePerProfile(t *testing.T) {
	var built, opened int
	r, k := NewRegistry(), newRecordingCache(t)
	r.RegisterPlugin(counted("c", &built, &opened))
	in := ProfileInput{Tiers: []conf.Tier{tier("c")}}
	profile, err := r.Build(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.CloseSession(r.OpenSession(k, profile))
	}
	if built != 1 || opened != 3 {
		t.Errorf("built %d times and opened %d times, want 1 and 3", built, opened)
	}
	if _, err := r.Build(in, nil); err != nil || built != 2 {
		t.Errorf("another profile: built %d times in all (%v), want 2", built, err)
	}
}

func TestBuildErrorsKeepTheFormerProfile(t *testing.T) {
	refuses := PluginSpec{Name: "refuses", Load: WithoutArguments(func(Handle) (Plugin, error) { return nil, errors.New("no such level") })}
	tests := map[string]struct {
		in   ProfileInput
		want string
	}{
		"an unknown action":               {in: ProfileInput{Actions: []string{"alocate"}, Tiers: []conf.Tier{tier("c")}}, want: `action "alocate" is not registered`},
		"a plugin refuses its arguments":  {in: ProfileInput{Tiers: []conf.Tier{tier("c", "refuses")}}, want: `building plugin "refuses": no such level`},
		"a plugin refuses in a late tier": {in: ProfileInput{Tiers: []conf.Tier{tier("c"), tier("refuses")}}, want: `building plugin "refuses": no such level`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var built, opened int
			r, k := NewRegistry(), newRecordingCache(t)
			r.RegisterPlugin(counted("c", &built, &opened))
			r.RegisterPlugin(refuses)
			inForce, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier("c")}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			profile, err := r.Build(tt.in, nil)
			if err == nil || err.Error() != tt.want || profile != nil {
				t.Errorf("Build returned %v, %v; want an error with %q", profile, err, tt.want)
			}
			r.CloseSession(r.OpenSession(k, inForce))
			if opened != 1 {
				t.Errorf("the plugin in force was opened %d times, want once", opened)
			}
		})
	}
}

// recovering is a plugin that can recover.
type recovering struct{ fake }

func (recovering) Recover(context.Context) error { return nil }

func TestRecoverersComeInConfOrder(t *testing.T) {
	r := NewRegistry()
	for _, name := range []string{"a", "b", "c"} {
		r.RegisterPlugin(PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) {
			return &recovering{fake{name, func(*Session) {}}}, nil
		})})
	}
	r.RegisterPlugin(spec("plain", func(*Session) {}))
	build := func(plugins ...string) *Profile {
		t.Helper()
		profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier(plugins...)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return profile
	}
	names := func(list []NamedRecoverer) []string {
		var names []string
		for _, rec := range list {
			names = append(names, rec.Plugin)
		}
		return names
	}
	profile := build("c", "plain", "a", "b")
	if diff := cmp.Diff([]string{"c", "a", "b"}, names(profile.Recoverers())); diff != "" {
		t.Errorf("recoverers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c", "b"}, names(profile.NewRecoverers(build("a", "plain"), nil))); diff != "" {
		t.Errorf("recoverers that are new (-want +got):\n%s", diff)
	}
}

func TestSessionEndSealsTransactions(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	ssn := open(t, r, k, ProfileInput{})
	if k.sealed != 0 {
		t.Error("sealed before the session's end")
	}
	r.CloseSession(ssn)
	if k.sealed == 0 {
		t.Error("not sealed at the session's end")
	}
	if len(r.views) != 0 {
		t.Errorf("%d sessions are kept after their end", len(r.views))
	}
}

// TestReleasedMembersWaitAgain checks that released members wait again, without the reason from before the gang was
// placed. Members of another session, which panicked, are unchanged.
func TestReleasedMembersWaitAgain(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	ssn := open(t, r, k, ProfileInput{})
	ssn.SetPendingReason("ns/g", PendingReason{NotEnoughResources, "no room, before it was placed"})
	commit(t, ssn)
	job := ssn.Jobs["ns/g"]
	tasks := map[string]*api.TaskInfo{}
	for uid, task := range job.Tasks {
		tasks[task.Name] = task
		k.incomplete = map[api.JobID][]api.TaskID{"ns/g": append(k.incomplete["ns/g"], uid), "ns/gone": {"x"}}
	}
	if err := job.UpdateTaskStatus(tasks["p1"], api.Binding); err != nil {
		t.Fatal(err)
	}
	tasks["p1"].NodeName = "n"
	r.CloseSession(ssn)
	var got []string
	for _, name := range []string{"p0", "p1"} {
		got = append(got, strings.TrimSpace(tasks[name].Status.String()+" "+tasks[name].NodeName))
	}
	if diff := cmp.Diff([]string{"Pending", "Binding n"}, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if reason, waits := ssn.PendingReason("ns/g"); waits {
		t.Errorf("the gang has the reason from before it was placed: %s", reason.Message)
	}
}

// TestEvictionsThatAreRefusedAreNone checks that refused evictions do not count as evictions.
func TestEvictionsThatAreRefusedAreNone(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	ssn := open(t, r, k, ProfileInput{})
	defer r.CloseSession(ssn)
	var sent []Eviction
	ssn.Placements.add("p", evicted(func(e Eviction) { sent = append(sent, e) }), nil)
	ssn.Action = "preempt"
	commit(t, ssn)
	evict := func() {
		for _, task := range ssn.Jobs["ns/g"].Tasks {
			if err := ssn.Evict(task, "reason"); !errors.Is(err, k.evictErr) {
				t.Errorf("evicting returned %v, want %v", err, k.evictErr)
			}
			return
		}
	}
	k.evictErr = errors.New("no")
	if evict(); len(sent) != 0 {
		t.Errorf("evictions after a refused one: %v", sent)
	}
	k.evictErr = nil
	if evict(); len(sent) != 1 || sent[0].Action != "preempt" {
		t.Errorf("evictions after one by preempt: %v", sent)
	}
}

// counter is a plugin that counts resources.
type counter struct {
	*fake
	accounting.ResourceCounter
}

// TestTheProfileHasTheResourceCounter checks that the plugin that counts resources is found when the configuration is
// built.
func TestTheProfileHasTheResourceCounter(t *testing.T) {
	r := NewRegistry()
	r.RegisterPlugin(spec("plain", func(*Session) {}))
	counting := counter{fake: &fake{"counting", func(*Session) {}}}
	r.RegisterPlugin(PluginSpec{Name: "counting", Load: WithoutArguments(func(Handle) (Plugin, error) { return counting, nil })})
	for plugins, want := range map[[2]string]accounting.ResourceCounter{{"plain", "counting"}: counting, {"plain", "binpack"}: nil} {
		profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier(plugins[:]...)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := profile.ResourceCounter(); got != want {
			t.Errorf("of the plugins %v, %v counts resources, want %v", plugins, got, want)
		}
	}
}

// TestKindsOfDevicesStayAsTheyAre checks that a configuration that enables or disables kinds of devices is rejected.
func TestKindsOfDevicesStayAsTheyAre(t *testing.T) {
	shares := func(vgpu bool) ProfileInput {
		devices := tier("deviceshare")
		devices.Plugins[0].Arguments = map[string]any{"deviceshare.VGPUEnable": vgpu}
		return ProfileInput{Tiers: []conf.Tier{devices}}
	}
	r := NewRegistry()
	for range 2 {
		if _, err := r.Build(shares(false), nil); err != nil {
			t.Error(err)
		}
		_, err := r.Build(shares(true), nil)
		const want = "found Device objects, deviceshare.VGPUEnable enabled, but the scheduler started with Device objects enabled"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Build returned %v, want an error with %q", err, want)
		}
	}
}

// TestAConfigurationIsTimeDrivenWhenAnyPluginIs checks that a configuration is time-driven if any of its plugins is.
func TestAConfigurationIsTimeDrivenWhenAnyPluginIs(t *testing.T) {
	r := NewRegistry()
	clock := spec("clock", func(*Session) {})
	clock.TimeDriven = true
	r.RegisterPlugin(clock)
	r.RegisterPlugin(spec("calm", func(*Session) {}))
	for want, tiers := range map[bool][][]string{true: {{"clock"}, {"clock", "calm"}, {"calm", "clock"}}, false: {{"calm"}, nil}} {
		for _, plugins := range tiers {
			profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier(plugins...), tier()}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if profile.TimeDriven != want {
				t.Errorf("with plugins %v it is time-driven: %t, want %t", plugins, profile.TimeDriven, want)
			}
		}
	}
}

// TestSessionThatPanickedIsForgotten checks that a session that panicked is forgotten. It was never closed, and must
// not be kept for ever.
func TestSessionThatPanickedIsForgotten(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	fail := true
	r.RegisterPlugin(spec("bad", func(*Session) {
		if fail {
			panic("oh no")
		}
	}))
	profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier("bad")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		r.OpenSession(k, profile)
	}()
	fail = false
	ssn := r.OpenSession(k, profile)
	if ssn.Session == nil || len(r.views) != 1 {
		t.Errorf("%d sessions are kept after one that panicked, want the open one", len(r.views))
	}
	r.CloseSession(ssn)
}

// act is an action that runs a function.
type act struct{ run func(ssn *Session) }

func (act) Name() string           { return "act" }
func (a act) Execute(ssn *Session) { a.run(ssn) }

func TestActionGetsOurSession(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	var got *Session
	r.RegisterAction(act{func(ssn *Session) { got = ssn }})
	profile, err := r.Build(ProfileInput{Actions: []string{"act"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ssn := r.OpenSession(k, profile)
	defer r.CloseSession(ssn)
	profile.Actions[0].Execute(ssn.Session)
	if got != ssn {
		t.Error("the action got another session")
	}
}
