// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// voter is an action that admits the gangs for which the plugins vote, and does not end the last vote.
type voter struct {
	vcframework.Action
	ssn   *Session
	gangs []api.JobID
	got   []bool
}

func (*voter) Name() string { return "enqueue" }

func (v *voter) Execute(*vcframework.Session) {
	for _, id := range v.gangs {
		job := v.ssn.Jobs[id]
		v.ssn.QueueUse.BeginVote(job)
		admitted := v.ssn.JobEnqueueable(job)
		if v.got = append(v.got, admitted); admitted {
			v.ssn.JobEnqueued(job)
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
		}
	}
}

// standIns returns the number of the job's tasks without a pod of the API server.
func standIns(job *api.JobInfo) int {
	count := 0
	for _, task := range job.Tasks {
		if task.Pod.Name == "" {
			count++
		}
	}
	return count
}

// TestAdmittedGangsCountOnlyWhatTheyHold checks that admitted gangs count only the resources that they use. Upstream's
// plugins admit one gang after another that each request all free resources of the node, although a gang admitted
// before waits. They refuse a gang that requests more. No stand-in stays in the session.
func TestAdmittedGangsCountOnlyWhatTheyHold(t *testing.T) {
	for _, plugin := range upstream.AdmissionLimiters {
		for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
			t.Run(plugin+", "+name, func(t *testing.T) { testAdmittedGangsCountOnlyWhatTheyHold(t, plugin, name) })
		}
	}
}

func testAdmittedGangsCountOnlyWhatTheyHold(t *testing.T, plugin, resource string) {
	k := newRecordingCache(t)
	if err := k.AddOrUpdateNode(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8", "nvidia.com/gpu": "8", "pods": "10"}).Obj()); err != nil {
		t.Fatal(err)
	}
	asking := func(name, amount string, phase v1beta1.PodGroupPhase) {
		k.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).MinResources(schedtest.Resources{resource: amount}).Phase(phase).Obj())
	}
	asking("before", "6", v1beta1.PodGroupInqueue)
	asking("runs", "6", v1beta1.PodGroupRunning)
	k.AddPod(schedtest.MakePod().Name("runs").Group("runs").Req(schedtest.Resources{resource: "2"}).Node("n").Obj())
	asking("a", "6", v1beta1.PodGroupPending)
	asking("b", "6", v1beta1.PodGroupPending)
	asking("large", "8", v1beta1.PodGroupPending)
	asking("c", "6", v1beta1.PodGroupPending)
	yes := true
	tiers := []conf.Tier{{Plugins: []conf.PluginOption{{Name: plugin, EnabledJobEnqueued: &yes, Arguments: map[string]any{"overcommit-factor": 1}}}}}
	r := NewRegistry()
	ssn := open(t, r, k, ProfileInput{Tiers: tiers})
	jobs := ssn.Jobs
	noStandIns := func(when string) {
		t.Helper()
		for id, job := range jobs {
			if standIns(job) > 0 {
				t.Errorf("%s gang %s has a stand-in", when, id)
			}
		}
	}
	noStandIns("after the opening")
	v := &voter{ssn: ssn, gangs: []api.JobID{"ns/a", "ns/b", "ns/large", "ns/c"}}
	ssn.Execute(v)
	for i, want := range []bool{true, true, false, true} {
		if v.got[i] != want {
			t.Errorf("gang %s: admitted %v, want %v", v.gangs[i], v.got[i], want)
		}
	}
	if ssn.Action != "enqueue" {
		t.Errorf("the action is %q", ssn.Action)
	}
	noStandIns("after the action")
	ssn.QueueUse.BeginVote(jobs["ns/c"])
	if got, want := upstream.CountedMinResources(jobs["ns/c"]), jobs["ns/c"].GetMinResources(); !got.Equal(want, api.Zero) || standIns(jobs["ns/c"]) != 1 {
		t.Errorf("during its vote the gang asks for %v, want %v, and has %d tasks", got, want, len(jobs["ns/c"].Tasks))
	}
	ssn.QueueUse.vote.End()
	noStandIns("after the vote")
	v.gangs = []api.JobID{"ns/c", "ns/deleted"}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the action did not panic")
			}
		}()
		ssn.Execute(v)
	}()
	noStandIns("after a panic")
}

// asking is a PendingReporter that decides only why gang ns/w is not admitted.
type asking struct{ unreported }

func (asking) Decide(ssn *Session) map[api.JobID]PendingReason {
	reason, _ := ssn.QueueUse.NotAdmitted(ssn.Jobs["ns/w"], ssn.PendingReason)
	return map[api.JobID]PendingReason{"ns/w": reason}
}

// TestNoPluginThatMiscountsEvictionsVotesAgain checks that plugin capacity does not vote again when a session with
// evictions closes. After evictions, capacity and proportion would subtract resources that elastic gangs have already
// lost.
func TestNoPluginThatMiscountsEvictionsVotesAgain(t *testing.T) {
	for _, evicts := range []bool{false, true} {
		t.Run(fmt.Sprint("evictions: ", evicts), func(t *testing.T) {
			k := newRecordingCache(t)
			k.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("w").MinResources(schedtest.Resources{"cpu": "1"}).Phase(v1beta1.PodGroupPending).Obj())
			k.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("runs").Phase(v1beta1.PodGroupRunning).Obj())
			k.AddPod(schedtest.MakePod().Name("runs").Group("runs").Req(schedtest.Resources{"cpu": "2"}).Node("n").Obj())
			votes, yes := 0, true
			r := NewRegistry()
			r.Reporter = asking{}
			ssn := open(t, r, k, ProfileInput{Tiers: []conf.Tier{{Plugins: []conf.PluginOption{{Name: "capacity", EnabledJobEnqueued: &yes}}}}})
			ssn.AddJobEnqueueableFn("capacity", func(any) int {
				votes++
				return util.Reject
			})
			ssn.Action = "reclaim"
			if evicts {
				for _, task := range ssn.Jobs["ns/runs"].Tasks {
					if err := ssn.Session.Evict(task, "for a test"); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.CloseSession(ssn)
			if (votes == 0) != evicts {
				t.Errorf("the plugin voted %d times", votes)
			}
			if got, want := ssn.pending.reasons["ns/w"].Message, "not admitted by plugin capacity: minResources asks for cpu 1; the cluster has "; !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
