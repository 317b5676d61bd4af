// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// recordingCache is a cache that records the members added to its transactions, with their steps.
type recordingCache struct {
	*vccache.SchedulerCache
	members map[string][]binding.Step
	decided map[string]map[string]string
	sealed  int
	// incomplete is the result of ReleaseIncomplete.
	incomplete map[api.JobID][]api.TaskID
	// evictErr is the error of Evict.
	evictErr error
}

var _ Cache = (*recordingCache)(nil)

func newRecordingCache(t *testing.T) *recordingCache {
	t.Helper()
	cluster := schedtest.NewCluster()
	cluster.Cache.AddQueueV1beta1(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	cluster.Cache.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("g").Obj())
	if err := cluster.Cache.AddOrUpdateNode(schedtest.MakeNode().Name("n").Obj()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p0", "p1"} {
		cluster.Cache.AddPod(schedtest.MakePod().Name(name).Group("g").Annotation("user", "old").Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	return &recordingCache{SchedulerCache: cluster.Cache, members: map[string][]binding.Step{}, decided: map[string]map[string]string{}}
}

func (c *recordingCache) AddToTransaction(bindCtx *vccache.BindContext, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error {
	c.members[bindCtx.TaskInfo.Name] = steps
	c.decided[bindCtx.TaskInfo.Name] = decided
	return nil
}

func (c *recordingCache) SealTransactions() { c.sealed++ }

func (c *recordingCache) ReleaseIncomplete() map[api.JobID][]api.TaskID { return c.incomplete }

func (c *recordingCache) Evict(*api.TaskInfo, string) error { return c.evictErr }

func (c *recordingCache) EvictTogether([]Eviction) error { return c.evictErr }

// trace records the events of steps, in order.
type trace struct {
	mu   sync.Mutex
	list []string
}

func (tr *trace) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.list = append(tr.list, fmt.Sprintf(format, args...))
}

// fake is a plugin whose hooks are functions.
type fake struct {
	name string
	open func(ssn *Session)
}

func (f *fake) Name() string               { return f.name }
func (f *fake) OnSessionOpen(ssn *Session) { f.open(ssn) }
func (f *fake) OnSessionClose(*Session)    {}

func spec(name string, open func(ssn *Session)) PluginSpec {
	return PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) { return &fake{name, open}, nil })}
}

// upstreamPlugin is a plugin of upstream's framework with upstream's PreBinder interface.
type upstreamPlugin struct {
	name  string
	trace *trace
}

func (u *upstreamPlugin) Name() string { return u.name }
func (u *upstreamPlugin) OnSessionOpen(ssn *vcframework.Session) {
	ssn.RegisterBinder(u.name, u)
}
func (u *upstreamPlugin) OnSessionClose(*vcframework.Session) {}

func (u *upstreamPlugin) SetupBindContextExtension(_ *k8sframework.CycleState, bindCtx *vccache.BindContext) {
	bindCtx.Extensions[u.name] = "claim of " + bindCtx.TaskInfo.Name
}

func (u *upstreamPlugin) PreBind(_ context.Context, bindCtx *vccache.BindContext) error {
	u.trace.add("%s %s: %v", u.name, bindCtx.TaskInfo.Name, bindCtx.Extensions[u.name])
	return nil
}

func (u *upstreamPlugin) PreBindRollBack(_ context.Context, bindCtx *vccache.BindContext) {
	u.trace.add("-%s %s: %v", u.name, bindCtx.TaskInfo.Name, bindCtx.Extensions[u.name])
}

func tier(plugins ...string) conf.Tier {
	var t conf.Tier
	for _, name := range plugins {
		yes := true
		t.Plugins = append(t.Plugins, conf.PluginOption{Name: name, EnabledPredicate: &yes, EnabledJobEnqueued: &yes, EnabledNodeOrder: &yes, EnabledJobOrder: &yes})
	}
	return t
}

// open builds a profile of the tiers and opens a session.
func open(t *testing.T, r *Registry, k *recordingCache, in ProfileInput) *Session {
	t.Helper()
	profile, err := r.Build(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.OpenSession(k, profile)
}

// commit places p0 on n with upstream's statement and commits it.
func commit(t *testing.T, ssn *Session) {
	t.Helper()
	statement := vcframework.NewStatement(ssn.Session)
	for _, task := range ssn.Jobs["ns/g"].Tasks {
		if task.Name == "p0" {
			if err := statement.Allocate(task, ssn.Nodes["n"]); err != nil {
				t.Fatal(err)
			}
		}
	}
	statement.Commit()
}

// walk runs the steps in order and rolls them back in reverse, as the engine does.
func walk(t *testing.T, steps []binding.Step) {
	t.Helper()
	task := api.NewTaskInfo(schedtest.MakePod().Name("p0").Group("g").Obj())
	for _, s := range steps {
		if err := s.PreBind(t.Context(), task, "n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range slices.Backward(steps) {
		if step.Rollback == nil {
			continue
		}
		if err := step.Rollback(t.Context(), task, "n"); err != nil {
			t.Fatal(err)
		}
	}
}
