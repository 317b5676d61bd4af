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

func (a *admissions) group(namespace, name, cpu string) *v1beta1.PodGroup {
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
				c.AddPodGroupV1beta1(a.group("greedy", fmt.Sprint("g", i), "8"))
			}
			a.cycle()
			for i := range 4 {
				c.AddPodGroupV1beta1(a.group("others", fmt.Sprint("g", i), "2"))
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

// TestOthersAreAdmittedBesideWithdrawnGangs: a tenant withdraws the gang that was admitted before each session, and has another one
// ready.
func TestOthersAreAdmittedBesideWithdrawnGangs(t *testing.T) {
	c := newCache(t) // its work queues outlive the bubble
	synctest.Test(t, func(t *testing.T) {
		a := newAdmissions(t, c, true)
		c.AddPodGroupV1beta1(a.group("greedy", "g0", "8"))
		c.AddPodGroupV1beta1(a.group("others", "g0", "2"))
		var got []int
		for i := range 3 {
			got = append(got, a.cycle()["others"])
			c.DeletePodGroupV1beta1(a.group("greedy", fmt.Sprint("g", i), "8"))
			c.AddPodGroupV1beta1(a.group("greedy", fmt.Sprint("g", i+1), "8"))
		}
		if diff := cmp.Diff([]int{0, 1, 1}, got); diff != "" {
			t.Errorf("admitted gangs of another namespace (-want +got):\n%s", diff)
		}
	})
}
