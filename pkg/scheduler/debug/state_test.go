// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// gang returns a gang with members in these statuses and a minimum of two.
func gang(name string, phase scheduling.PodGroupPhase, statuses ...api.TaskStatus) *api.JobInfo {
	job := api.NewJobInfo(api.JobID("ns/" + name))
	job.Namespace, job.Name = "ns", name
	job.PodGroup = &api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{MinMember: 2}, Status: scheduling.PodGroupStatus{Phase: phase}}}
	for i, status := range statuses {
		task := &api.TaskInfo{UID: api.TaskID(fmt.Sprint(name, i)), Job: job.UID, Resreq: api.EmptyResource(), InitResreq: api.EmptyResource()}
		task.Status = status
		job.AddTaskInfo(task)
	}
	return job
}

func TestStateOf(t *testing.T) {
	orphan := gang("g", scheduling.PodGroupRunning, api.Running, api.Running)
	orphan.PodGroup = nil
	tests := map[string]struct {
		job      *api.JobInfo
		sentBack bool
		want     State
	}{
		"no members":                      {gang("g", scheduling.PodGroupPending), false, Waiting},
		"members that wait":               {gang("g", scheduling.PodGroupPending, api.Pending, api.Pending), false, Waiting},
		"admitted":                        {gang("g", scheduling.PodGroupInqueue, api.Pending, api.Pending), false, Admitted},
		"sent back":                       {gang("g", scheduling.PodGroupInqueue, api.Pending, api.Pending), true, TimedOut},
		"one in flight":                   {gang("g", scheduling.PodGroupInqueue, api.Binding, api.Running), false, InFlight},
		"one placed":                      {gang("g", scheduling.PodGroupInqueue, api.Allocated, api.Pending), false, InFlight},
		"one bound":                       {gang("g", scheduling.PodGroupInqueue, api.Bound, api.Pending), true, Partial},
		"both bound":                      {gang("g", scheduling.PodGroupInqueue, api.Bound, api.Bound), false, Bound},
		"one of two runs":                 {gang("g", scheduling.PodGroupInqueue, api.Bound, api.Running), false, Bound},
		"both run":                        {gang("g", scheduling.PodGroupRunning, api.Running, api.Running, api.Pending), false, Running},
		"one runs, one has succeeded":     {gang("g", scheduling.PodGroupRunning, api.Running, api.Succeeded), false, Running},
		"one runs, one has failed":        {gang("g", scheduling.PodGroupRunning, api.Running, api.Failed), false, Partial},
		"all have ended":                  {gang("g", scheduling.PodGroupRunning, api.Succeeded, api.Failed), false, Ended},
		"run without their PodGroup":      {orphan, false, Partial},
		"one has succeeded, one is to go": {gang("g", scheduling.PodGroupRunning, api.Succeeded, api.Pending), false, Waiting},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := stateOf(tt.job, tt.sentBack); got != tt.want {
				t.Errorf("the state is %s, want %s", got, tt.want)
			}
		})
	}
}

// known has the gangs of a cache.
type known map[api.JobID]*api.JobInfo

func (k known) IDs() (ids []api.JobID) {
	for id := range k {
		ids = append(ids, id)
	}
	return ids
}

func (k known) View(ids []api.JobID, see func(*api.JobInfo)) {
	for _, id := range ids {
		see(k[id])
	}
}

func viewOf(jobs ...*api.JobInfo) *View {
	all := known{}
	for _, job := range jobs {
		all[job.UID] = job
	}
	reasons := map[api.JobID]framework.PendingReason{"ns/c": {Reason: gangs.TimedOut}}
	return New(all, func() int { return 3 }, func() map[api.JobID]framework.PendingReason { return reasons }, func() (gangs.Settings, bool) { return gangs.Settings{}, false }, NewEvictionTries())
}

func TestListShowsPages(t *testing.T) {
	view := viewOf(gang("b", ""), gang("a", ""), gang("d", ""), gang("c", ""))
	tests := map[string]struct {
		query   Query
		want    []string
		leftOut int
	}{
		"all":                  {Query{Limit: 9}, []string{"a", "b", "c", "d"}, 0},
		"the first":            {Query{Limit: 1}, []string{"a"}, 3},
		"the next":             {Query{Limit: 2, After: "ns/a"}, []string{"b", "c"}, 1},
		"none":                 {Query{}, nil, 4},
		"a negative number":    {Query{Limit: -1}, nil, 4},
		"one by its name":      {Query{Limit: 9, Name: "c"}, []string{"c"}, 0},
		"another namespace's":  {Query{Limit: 9, Namespace: "other"}, nil, 0},
		"after the last":       {Query{Limit: 9, After: "ns/d"}, nil, 0},
		"of the namespace all": {Query{Limit: 9, Namespace: "ns"}, []string{"a", "b", "c", "d"}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			page := view.List(tt.query)
			var got []string
			for _, g := range page.Gangs {
				got = append(got, g.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || page.LeftOut != tt.leftOut {
				t.Errorf("%d are left out, want %d; shown (-want +got):\n%s", page.LeftOut, tt.leftOut, diff)
			}
		})
	}
}

func TestCountHasEachState(t *testing.T) {
	counts := viewOf(gang("a", scheduling.PodGroupInqueue), gang("b", scheduling.PodGroupInqueue), gang("c", scheduling.PodGroupPending)).Count()
	want := map[string]int{}
	for _, state := range States {
		want[string(state)] = 0
	}
	want[string(Admitted)], want[string(TimedOut)] = 2, 1
	if diff := cmp.Diff(want, counts.ByState); diff != "" || counts.GroupsInFlight != 3 {
		t.Errorf("%d groups in flight, want 3; gangs by state (-want +got):\n%s", counts.GroupsInFlight, diff)
	}
}

// TestTextsOfTenantsAreShortened checks that texts of tenants are shortened: an answer lists only some of 100 roles.
func TestTextsOfTenantsAreShortened(t *testing.T) {
	job := gang("g", "")
	job.PodGroup.Spec.MinTaskMember = map[string]int32{}
	for i := range 100 {
		job.PodGroup.Spec.MinTaskMember[fmt.Sprintf("role-%03d", i)] = 1
	}
	job.PodGroup.Spec.MinMember = 100
	g, _ := see(job)
	if len(g.Minimum.Roles) != mostNamed || g.Minimum.Roles["role-000"] != 1 {
		t.Errorf("%d roles are shown, want the first %d", len(g.Minimum.Roles), mostNamed)
	}
}
