// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// voter is an action that admits the gangs for which plugins vote, and leaves a vote open.
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

// TestAdmittedGangsCountOnlyWhatTheyHold: upstream's plugins admit gangs that ask for the whole node one after the other, beside one that
// was admitted before, and refuse one that asks for more than is left beside what is held. No gang keeps a stand-in.
func TestAdmittedGangsCountOnlyWhatTheyHold(t *testing.T) {
	for _, plugin := range []string{"capacity", "overcommit", "proportion"} {
		t.Run(plugin, func(t *testing.T) {
			k := newRecordingCache(t)
			asking := func(name, cpu string, phase v1beta1.PodGroupPhase) {
				k.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).MinResources(schedtest.Resources{"cpu": cpu}).Phase(phase).Obj())
			}
			asking("before", "6", v1beta1.PodGroupInqueue)
			asking("runs", "6", v1beta1.PodGroupRunning)
			k.AddPod(schedtest.MakePod().Name("runs").Group("runs").Req(schedtest.Resources{"cpu": "2"}).Node("n").Obj())
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
					if job.Tasks[standIn] != nil {
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
			if got := CountedMinResources(jobs["ns/c"]).MilliCPU; got != 6000 || jobs["ns/c"].Tasks[standIn] == nil {
				t.Errorf("during its vote the gang asks for %g thousandths of a cpu, want 6000, and %d tasks", got, len(jobs["ns/c"].Tasks))
			}
			ssn.QueueUse.endVote()
			noStandIns("after the vote")
		})
	}
}
