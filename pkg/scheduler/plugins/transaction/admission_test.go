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

// reserver is a plugin like upstream's overcommit: it admits a gang if the node of 8 cpus has room for its minResources
// beside those of all admitted gangs.
func reserver(ssn *framework.Session) {
	reserved := api.EmptyResource()
	for _, job := range ssn.Jobs {
		if job.PodGroup.Status.Phase == scheduling.PodGroupInqueue {
			reserved.Add(job.GetMinResources())
		}
	}
	ssn.AddJobEnqueueableFn("reserver", func(obj any) int {
		if obj.(*api.JobInfo).GetMinResources().Add(reserved).LessEqual(ssn.TotalResource, api.Zero) {
			return util.Permit
		}
		return util.Reject
	})
	ssn.AddJobEnqueuedFn("reserver", func(obj any) { reserved.Add(obj.(*api.JobInfo).GetMinResources()) })
}

// TestOthersAreAdmittedBesideAPromise: a tenant has a gang admitted that asks for the whole cluster, and has another one ready for
// each session. A gang of another namespace is admitted after promiseFor, and so is each later one at once. The tenant's own gangs
// wait.
func TestOthersAreAdmittedBesideAPromise(t *testing.T) {
	c := newCache(t) // its work queues outlive the bubble
	synctest.Test(t, func(t *testing.T) {
		add := func(namespace, name string, cpu string) {
			group := schedtest.MakePodGroup().Name(name).Queue("c").Phase(v1beta1.PodGroupPending).Obj()
			asks := cpus(cpu)
			group.Namespace, group.Spec.MinResources = namespace, &asks
			c.AddPodGroupV1beta1(group)
		}
		for i := range 5 {
			add("greedy", fmt.Sprint("g", i), "8")
		}
		c.opens = reserver
		yes := true
		session := sessions(t, c, 0, conf.PluginOption{Name: "reserver", EnabledJobEnqueued: &yes})
		// cycle admits gangs in the order of their names, and returns how many gangs of each namespace are admitted.
		cycle := func() map[string]int {
			admitted := map[string]int{}
			session(func(ssn *framework.Session) {
				for _, namespace := range []string{"greedy", "others"} {
					for i := range 5 {
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
			time.Sleep(step)
			return admitted
		}
		cycle()
		add("others", "g0", "2")
		began := time.Now()
		var got map[string]int
		for got = cycle(); got["others"] == 0 && time.Since(began) < noPromisesFor; got = cycle() {
		}
		if waited := time.Since(began); waited < promiseFor || waited > promiseFor+3*step {
			t.Errorf("a gang of another namespace was admitted after %s", waited)
		}
		for i := 1; i < 4; i++ {
			add("others", fmt.Sprint("g", i), "2")
			got = cycle()
		}
		if diff := cmp.Diff(map[string]int{"greedy": 1, "others": 4}, got); diff != "" {
			t.Errorf("admitted gangs (-want +got):\n%s", diff)
		}
		session(func(ssn *framework.Session) {
			job := ssn.Jobs["greedy/g1"]
			ssn.JobEnqueueable(job)
			want := framework.PendingReason{Reason: framework.NotEnqueued, Message: "admitted gangs of namespace greedy already wait for as much as the cluster has; this one is admitted when enough of them are placed or deleted"}
			if got, _ := ssn.PendingReason(job.UID); got != want {
				t.Errorf("the gang of the same namespace waits because of %+v", got)
			}
		})
	})
}

// TestAFullQueueKeepsItsOwnGangsOut: a gang that its own queue keeps out ends no promise of others.
func TestAFullQueueKeepsItsOwnGangsOut(t *testing.T) {
	c := newCache(t) // its work queues outlive the bubble
	synctest.Test(t, func(t *testing.T) {
		full := schedtest.MakeQueue().Name("full").Obj()
		full.Spec.Capability = cpus("1")
		c.AddQueueV1beta1(full)
		for namespace, in := range map[string][2]string{"greedy": {"c", "8"}, "others": {"full", "2"}} {
			group := schedtest.MakePodGroup().Name("g").Queue(in[0]).Phase(v1beta1.PodGroupPending).Obj()
			asks := cpus(in[1])
			group.Namespace, group.Spec.MinResources = namespace, &asks
			c.AddPodGroupV1beta1(group)
		}
		c.opens = reserver
		yes := true
		session := sessions(t, c, 0, conf.PluginOption{Name: "reserver", EnabledJobEnqueued: &yes})
		admitted := func(ssn *framework.Session, id api.JobID) bool {
			job := ssn.Jobs[id]
			if job.IsPending() && ssn.JobEnqueueable(job) {
				ssn.JobEnqueued(job)
				job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
			}
			return !job.IsPending()
		}
		for range 10 * promiseFor / step {
			session(func(ssn *framework.Session) {
				if got := [2]bool{admitted(ssn, "greedy/g"), admitted(ssn, "others/g")}; got != [2]bool{true, false} {
					t.Fatalf("admitted: %v", got)
				}
			})
			time.Sleep(step)
		}
	})
}
