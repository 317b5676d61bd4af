// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// fakeCache is upstream's cache without its API writes. It records evicted pods, and implements the gate that blocks
// gangs.
type fakeCache struct {
	*vccache.SchedulerCache
	t       *testing.T
	events  *schedtest.Events
	blocked map[api.JobID]string
	avoid   map[api.JobID][]string
	evicted []string
	// refuses is the number of evictions that the API server rejects before it accepts one.
	refuses int
	// session runs a session, and reload loads the configuration again.
	session func(f func(ssn *framework.Session))
	reload  func()
	// registry is the registry of the sessions.
	registry *framework.Registry
	// pending has the reasons why gangs waited when the last session closed.
	pending *report.PendingGangs
	// part implements interfaces of the framework for the other plugins; nil means none.
	part any
	// opens is called when the other plugins open; it may be nil.
	opens func(ssn *framework.Session)
}

func (c *fakeCache) AddToTransaction(*vccache.BindContext, *binding.GangGroup, map[string]string, []binding.Step) error {
	return nil
}
func (c *fakeCache) SealTransactions()                             {}
func (c *fakeCache) EvictTogether([]framework.Eviction) error      { return nil }
func (c *fakeCache) ReleaseIncomplete() map[api.JobID][]api.TaskID { return nil }

// UpdateJobStatus stores the status in the cache, as the API server would.
func (c *fakeCache) UpdateJobStatus(job *api.JobInfo, _, _, _ bool) (*api.JobInfo, error) {
	c.Jobs[job.UID].PodGroup.Status = *job.PodGroup.Status.DeepCopy()
	return job, nil
}

func (c *fakeCache) UpdateQueueStatus(*api.QueueInfo) error { return nil }

func (c *fakeCache) Evict(task *api.TaskInfo, reason string) error {
	if c.refuses > 0 {
		c.refuses--
		return errors.New("refused")
	}
	c.evicted = append(c.evicted, task.Name+": "+reason)
	return nil
}

func (c *fakeCache) Blocked(gang api.JobID) (string, bool) {
	reason, blocked := c.blocked[gang]
	return reason, blocked
}

func (c *fakeCache) Avoid(gang api.JobID) []string { return c.avoid[gang] }

// newCache returns a cache with the queues a, b and c and the node n. Each queue has a gang of two pods with a minimum
// of 2: "half" is partially bound, "whole" runs, and "waits" is pending.
func newCache(t *testing.T) *fakeCache {
	t.Helper()
	cluster := schedtest.NewCluster()
	c := &fakeCache{t: t, SchedulerCache: cluster.Cache, events: cluster.Events, blocked: map[api.JobID]string{}}
	if err := c.AddOrUpdateNode(schedtest.MakeNode().Name("n").Obj()); err != nil {
		t.Fatal(err)
	}
	for _, g := range []struct{ name, queue string }{{"half", "b"}, {"whole", "a"}, {"waits", "c"}} {
		c.AddQueueV1beta1(schedtest.MakeQueue().Name(g.queue).Obj())
		c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(g.name).Queue(g.queue).MinMember(2).Phase(v1beta1.PodGroupPending).Obj())
	}
	member := func(gang, n string) *schedtest.PodBuilder {
		return schedtest.MakePod().Name(gang + "-" + n).Group(gang).Req(schedtest.Resources{"cpu": "1"})
	}
	for _, pod := range []*schedtest.PodBuilder{
		member("half", "0").Node("n").Annotation(binding.MinimumAnnotation, "2"), member("half", "1"),
		member("whole", "0").Node("n").Phase(v1.PodRunning), member("whole", "1").Node("n").Phase(v1.PodRunning),
		member("waits", "0"), member("waits", "1"),
	} {
		c.AddPod(pod.Obj())
	}
	return c
}

// sessions returns a function that runs a session with the profile of the last call of c.reload. It calls c.reload
// once.
func sessions(t *testing.T, c *fakeCache, limit time.Duration, others ...conf.PluginOption) (session func(f func(ssn *framework.Session))) {
	t.Helper()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec(c))
	for _, other := range others {
		registry.RegisterPlugin(framework.PluginSpec{Name: other.Name, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return &sessiontest.Plugin{Called: other.Name, Part: c.part, Open: c.opens}, nil
		})})
	}
	c.registry, c.pending = registry, report.NewPendingGangs(nil)
	registry.Reporter = c.pending
	var profile *framework.Profile
	c.reload = func() {
		t.Helper()
		var err error
		if profile, err = registry.Build(framework.ProfileInput{Tiers: []conf.Tier{Tier(limit), {Plugins: others}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.reload()
	return func(f func(ssn *framework.Session)) {
		ssn := registry.OpenSession(c, profile)
		defer registry.CloseSession(ssn)
		if f != nil {
			f(ssn)
		}
	}
}

func TestPartiallyBoundGangComesFirst(t *testing.T) {
	c := newCache(t)
	sessions(t, c, 0)(func(ssn *framework.Session) {
		var jobs []*api.JobInfo
		for _, job := range ssn.Jobs {
			jobs = append(jobs, job)
		}
		for _, job := range jobs {
			if urgent := ssn.Placements.IsPlacedFirst(job); urgent != (job.Name == "half") {
				t.Errorf("gang %s is placed first: %t", job.Name, urgent)
			}
		}
		if ssn.QueueOrderFn(ssn.Queues["b"], ssn.Queues["a"]) {
			t.Error("the queue of the partially bound gang comes first")
		}
		phases := map[string]scheduling.PodGroupPhase{}
		for _, job := range jobs {
			phases[job.Name] = job.PodGroup.Status.Phase
		}
		want := map[string]scheduling.PodGroupPhase{
			"half": scheduling.PodGroupInqueue, "whole": scheduling.PodGroupPending, "waits": scheduling.PodGroupPending,
		}
		if diff := cmp.Diff(want, phases); diff != "" {
			t.Errorf("phases, want only the partially bound gang admitted (-want +got):\n%s", diff)
		}
	})
}

func TestBlockedGangIsLeftOut(t *testing.T) {
	c := newCache(t)
	c.blocked["ns/waits"] = "it failed a moment ago"
	sessions(t, c, 0)(func(ssn *framework.Session) {
		for uid, job := range ssn.Jobs {
			result := ssn.JobValid(job)
			if uid != "ns/waits" {
				if result != nil {
					t.Errorf("gang %s is left out: %+v, want only ns/waits left out", uid, result)
				}
				continue
			}
			want := &api.ValidateResult{Reason: "BindBackoff", Message: "it failed a moment ago"}
			if diff := cmp.Diff(want, result); diff != "" {
				t.Errorf("verdict on gang ns/waits (-want +got):\n%s", diff)
			}
		}
	})
}

// TestAnOpeningSessionValidatesNoGangs: upstream validates gangs when a session opens, only to create cycle states,
// which may be slow because a plugin may look at each task. Here all gangs are validated once the session is open, and
// a task has a cycle state before filters need it.
func TestAnOpeningSessionValidatesNoGangs(t *testing.T) {
	c, asked := newCache(t), map[string]bool{}
	c.opens = func(ssn *framework.Session) {
		ssn.AddJobValidFn("other", func(obj any) *api.ValidateResult {
			asked[obj.(*api.JobInfo).Name] = true
			return nil
		})
	}
	session := sessions(t, c, 0, conf.PluginOption{Name: "other"})
	for range 2 {
		clear(asked)
		session(func(ssn *framework.Session) {
			if len(asked) > 0 {
				t.Errorf("gangs validated while the session opened: %v, want none", asked)
			}
			for uid, task := range ssn.Jobs["ns/waits"].Tasks {
				err := ssn.PrePredicateFn(task)
				if state := ssn.GetCycleState(uid); err != nil || state != ssn.GetCycleState(uid) {
					t.Errorf("task %s has no stable cycle state, or the filter returned an error: %v", uid, err)
				}
			}
			if verdict := ssn.JobValid(ssn.Jobs["ns/whole"]); verdict != nil || !asked["whole"] {
				t.Errorf("the verdict on the running gang is %+v, want none; the other plugin was called: %t", verdict, asked["whole"])
			}
		})
	}
}

func TestGangAvoidsTheNodesItFailedOn(t *testing.T) {
	c := newCache(t)
	c.avoid = map[api.JobID][]string{"ns/waits": {"n"}}
	sessions(t, c, 0)(func(ssn *framework.Session) {
		got := map[api.JobID][]string{}
		for uid, job := range ssn.Jobs {
			placement, err := ssn.Placements.Of(job)
			if err != nil {
				t.Fatal(err)
			}
			if placement.Avoid != nil {
				got[uid] = placement.Avoid
			}
		}
		if diff := cmp.Diff(c.avoid, got); diff != "" {
			t.Errorf("nodes to avoid (-want +got):\n%s", diff)
		}
	})
}

// TestPluginsThatRecordTurnsHaveNoVote: the plugin's vote on admission is called first, to record the current job, and
// does not change the result.
func TestPluginsThatRecordTurnsHaveNoVote(t *testing.T) {
	for vote, want := range map[int]bool{util.Permit: true, util.Abstain: true, util.Reject: false} {
		c := newCache(t)
		sessions(t, c, 0)(func(ssn *framework.Session) {
			yes := true
			ssn.Tiers = append(ssn.Tiers, conf.Tier{Plugins: []conf.PluginOption{{Name: "voter", EnabledJobEnqueued: &yes}}})
			ssn.AddJobEnqueueableFn("voter", func(any) int { return vote })
			if got := ssn.JobEnqueueable(ssn.Jobs["ns/waits"]); got != want {
				t.Errorf("with vote %d of another plugin the gang is admitted: %t, want %t", vote, got, want)
			}
		})
	}
}

// TestTurns checks that votes, filters and placements set the current job. A panic is attributed to that gang.
func TestTurns(t *testing.T) {
	c := newCache(t)
	sessions(t, c, 0)(func(ssn *framework.Session) {
		statement := vcframework.NewStatement(ssn.Session)
		job := ssn.Jobs["ns/waits"]
		for _, task := range job.TaskStatusIndex[api.Pending] {
			for what, do := range map[string]func() error{
				"the plugin votes on the gang": func() error { ssn.JobEnqueueable(job); return nil },
				"the task is filtered":         func() error { return ssn.PrePredicateFn(task) },
				"the task is placed and released": func() error {
					if err := statement.Allocate(task, ssn.Nodes["n"]); err != nil {
						return err
					}
					if turn := c.registry.CurrentJob(); turn != job.UID {
						t.Errorf("when the task is placed the current job is %q", turn)
					}
					ssn.SetCurrentJob("")
					return statement.UnAllocate(task)
				},
			} {
				ssn.SetCurrentJob("")
				if err := do(); err != nil {
					t.Fatal(err)
				}
				if turn := c.registry.CurrentJob(); turn != job.UID {
					t.Errorf("when %s the current job is %q, want %q", what, turn, job.UID)
				}
			}
			return
		}
	})
}
