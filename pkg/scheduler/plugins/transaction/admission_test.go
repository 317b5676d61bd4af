// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reserver is a plugin like upstream's: it admits a gang if the node of 8 cpus has room for its minResources beside those of all
// admitted gangs. Like capacity and proportion, it counts a gang when it votes for it, or like overcommit when the gang is admitted.
func reserver(atVote bool) func(ssn *framework.Session) {
	return func(ssn *framework.Session) {
		reserved := api.EmptyResource()
		for _, job := range ssn.Jobs {
			if job.PodGroup.Status.Phase == scheduling.PodGroupInqueue {
				reserved.Add(job.GetMinResources())
			}
		}
		ssn.AddJobEnqueueableFn("overcommit", func(obj any) int {
			asks := obj.(*api.JobInfo).GetMinResources()
			if !asks.Clone().Add(reserved).LessEqual(ssn.TotalResource, api.Zero) {
				return util.Reject
			}
			if atVote {
				reserved.Add(asks)
			}
			return util.Permit
		})
		ssn.AddJobEnqueuedFn("overcommit", func(obj any) {
			if !atVote {
				reserved.Add(obj.(*api.JobInfo).GetMinResources())
			}
		})
	}
}

// admissions runs sessions in which gangs ask for admission in the order of their names, those of namespace greedy first.
type admissions struct {
	c       *fakeCache
	session func(f func(ssn *framework.Session))
}

func newAdmissions(t *testing.T, c *fakeCache, atVote bool) *admissions {
	c.opens = reserver(atVote)
	yes := true
	return &admissions{c, sessions(t, c, 0, conf.PluginOption{Name: "overcommit", EnabledJobEnqueued: &yes})}
}

func podGroup(namespace, name, cpu string) *v1beta1.PodGroup {
	group := schedtest.MakePodGroup().Name(name).Queue("c").Phase(v1beta1.PodGroupPending).Obj()
	asks := cpus(cpu)
	group.Namespace, group.Spec.MinResources = namespace, &asks
	return group
}

// cycle returns how many gangs of each namespace are admitted.
func (a *admissions) cycle() map[string]int {
	admitted := map[string]int{}
	a.session(func(ssn *framework.Session) {
		for _, namespace := range []string{"greedy", "others"} {
			for i := range 50 {
				job := ssn.Jobs[api.JobID(fmt.Sprint(namespace, "/g", i))]
				if job == nil {
					continue
				}
				if job.IsPending() && ssn.JobEnqueueable(job) {
					ssn.JobEnqueued(job)
					job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
				}
				if !job.IsPending() {
					admitted[namespace]++
				}
			}
		}
	})
	time.Sleep(time.Second)
	return admitted
}

// TestOthersAreAdmittedBesideAPromise: a tenant has a gang admitted that asks for the whole cluster, and others wait behind it. The
// gangs of another namespace are admitted meanwhile, the tenant's own wait and say why.
func TestOthersAreAdmittedBesideAPromise(t *testing.T) {
	for _, atVote := range []bool{false, true} {
		c := newCache(t) // its work queues outlive the bubble
		synctest.Test(t, func(t *testing.T) {
			a := newAdmissions(t, c, atVote)
			for i := range 5 {
				c.AddPodGroupV1beta1(podGroup("greedy", fmt.Sprint("g", i), "8"))
			}
			a.cycle()
			for i := range 4 {
				c.AddPodGroupV1beta1(podGroup("others", fmt.Sprint("g", i), "2"))
			}
			if diff := cmp.Diff(map[string]int{"greedy": 1, "others": 4}, a.cycle()); diff != "" {
				t.Errorf("admitted gangs (-want +got):\n%s", diff)
			}
			a.session(func(ssn *framework.Session) {
				ssn.JobEnqueueable(ssn.Jobs["greedy/g1"])
			})
			const want = "admitted gangs of namespace greedy already wait for cpu 8 of 8 in the cluster, and minResources asks for 8"
			if got := c.registry.PendingReasons()["greedy/g1"]; got.Reason != framework.NotEnqueued || got.Message != want {
				t.Errorf("a gang of the namespace waits because of %+v", got)
			}
		})
	}
}

// TestOthersAreAdmittedBesideWithdrawnGangs: before each session a tenant withdraws the gang that was admitted, in one of several ways,
// and has another one ready. A gang of another namespace asks in each session too, and is kept out of at most one session in ten.
func TestOthersAreAdmittedBesideWithdrawnGangs(t *testing.T) {
	update := func(c *fakeCache, gang *v1beta1.PodGroup) {
		old := gang.DeepCopy()
		old.ResourceVersion = "before"
		c.UpdatePodGroupV1beta1(old, gang)
	}
	tests := map[string]func(c *fakeCache, admitted int) (next int){
		"deleted and made again": func(c *fakeCache, _ int) int {
			c.DeletePodGroupV1beta1(podGroup("greedy", "g0", "8"))
			c.AddPodGroupV1beta1(podGroup("greedy", "g0", "8"))
			return 0
		},
		"deleted, and another made": func(c *fakeCache, admitted int) int {
			c.DeletePodGroupV1beta1(podGroup("greedy", fmt.Sprint("g", admitted), "8"))
			c.AddPodGroupV1beta1(podGroup("greedy", fmt.Sprint("g", admitted+1), "8"))
			return admitted + 1
		},
		"sent back": func(c *fakeCache, _ int) int {
			update(c, podGroup("greedy", "g0", "8"))
			return 0
		},
		"sent back, and another made": func(c *fakeCache, admitted int) int {
			update(c, podGroup("greedy", fmt.Sprint("g", admitted), "8"))
			c.AddPodGroupV1beta1(podGroup("greedy", fmt.Sprint("g", admitted+1), "8"))
			return admitted + 1
		},
		"made smaller, and another made": func(c *fakeCache, admitted int) int {
			smaller := podGroup("greedy", fmt.Sprint("g", admitted), "0")
			smaller.Status.Phase = v1beta1.PodGroupInqueue
			update(c, smaller)
			c.AddPodGroupV1beta1(podGroup("greedy", fmt.Sprint("g", admitted+1), "8"))
			return admitted + 1
		},
	}
	for name, withdraw := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t) // its work queues outlive the bubble
			synctest.Test(t, func(t *testing.T) {
				a := newAdmissions(t, c, true)
				last := 0
				c.AddPodGroupV1beta1(podGroup("greedy", "g0", "8"))
				c.AddPodGroupV1beta1(podGroup("others", "g0", "2"))
				admitted := 0
				for range 40 {
					admitted += a.cycle()["others"]
					last = withdraw(c, last)
					update(c, podGroup("others", "g0", "2"))
				}
				if admitted < 36 || admitted > 39 {
					t.Errorf("the gang of another namespace was admitted in %d of 40 sessions, want 36 to 39", admitted)
				}
			})
		})
	}
}

type neverFits api.JobID

func (gang neverFits) Infeasible(_ *framework.Session, job *api.JobInfo) bool {
	return job.UID == api.JobID(gang)
}

// TestNothingIsPromisedToAGangThatNeverFits, except for as long as any promise lasts.
func TestNothingIsPromisedToAGangThatNeverFits(t *testing.T) {
	c := newCache(t) // its work queues outlive the bubble
	synctest.Test(t, func(t *testing.T) {
		c.part = neverFits("greedy/g0")
		a := newAdmissions(t, c, true)
		c.AddPodGroupV1beta1(podGroup("greedy", "g0", "8"))
		a.cycle()
		c.AddPodGroupV1beta1(podGroup("greedy", "g1", "8"))
		c.AddPodGroupV1beta1(podGroup("greedy", "g2", "8"))
		for at := time.Second; at <= shortestPromise; at += time.Second {
			want := 1
			if at == shortestPromise {
				want = 2
			}
			if got := a.cycle()["greedy"]; got != want {
				t.Errorf("after %s %d gangs of the namespace are admitted, want %d", at, got, want)
			}
		}
	})
}

// TestAPromiseLimitsItsNamespaceInTheQueue: its gangs that wait ask together for no more than the capability of the queue, and of its
// ancestors if their limits apply.
func TestAPromiseLimitsItsNamespaceInTheQueue(t *testing.T) {
	tests := map[string]struct {
		queue, cpu string
		nested     bool
		want       string
	}{
		"up to the capability":         {"q", "2", true, ""},
		"more than the capability":     {"q", "3", true, "admitted gangs of namespace ns already wait for cpu 2 of 4 in the capability of queue q, and minResources asks for 3"},
		"up to the parent's":           {"other", "3", true, ""},
		"more than the parent's":       {"other", "4", true, "admitted gangs of namespace ns already wait for cpu 2 of 5 in the capability of queue parent, and minResources asks for 4"},
		"the parent's does not apply":  {"other", "4", false, ""},
		"a resource that is unlimited": {"memory", "6", true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			for name, capability := range map[string]schedtest.Resources{"q": {"cpu": "4"}, "other": {}, "memory": {"memory": "1Gi"}, "parent": {"cpu": "5"}} {
				queue := schedtest.MakeQueue().Name(name).Capability(capability).Obj()
				if name == "q" || name == "other" {
					queue.Spec.Parent = "parent"
				}
				c.AddQueueV1beta1(queue)
			}
			session := sessions(t, c, 0, conf.PluginOption{Name: "capacity", EnabledHierarchy: &tt.nested})
			gangs := map[string]*v1beta1.PodGroup{}
			for name, in := range map[string][2]string{"g": {"q", "2"}, "w": {tt.queue, tt.cpu}} {
				gangs[name] = podGroup("ns", name, in[1])
				gangs[name].Spec.Queue = in[0]
				c.AddPodGroupV1beta1(gangs[name])
			}
			session(func(ssn *framework.Session) {
				ssn.JobEnqueued(ssn.Jobs["ns/g"])
				waits := ssn.Jobs["ns/w"]
				waits.Queue = api.QueueID(tt.queue)
				if got := ssn.JobEnqueueable(waits); got != (tt.want == "") {
					t.Errorf("admitted: %v", got)
				}
			})
			if got := c.registry.PendingReasons()["ns/w"].Message; tt.want != "" && got != tt.want {
				t.Errorf("got  %q,\nwant %q", got, tt.want)
			}
		})
	}
}
