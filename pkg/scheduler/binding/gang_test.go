// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// tasks describes a job's tasks: role, sub-group and state.
type tasks []struct {
	role, sub string
	status    api.TaskStatus
}

func jobOf(t *testing.T, group *schedtest.PodGroupBuilder, list tasks) *api.JobInfo {
	t.Helper()
	job := api.NewJobInfo("ns/g")
	pg := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
	if err := scheme.Scheme.Convert(group.Name("g").Obj(), &pg.PodGroup, nil); err != nil {
		t.Fatal(err)
	}
	job.SetPodGroup(pg)
	for i, task := range list {
		pod := schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g")
		if task.role != "" {
			pod.Role(task.role)
		}
		if task.sub != "" {
			pod.Label("sub", task.sub)
		}
		info := api.NewTaskInfo(pod.Obj())
		info.Status = task.status
		job.AddTaskInfo(info)
	}
	return job
}

func TestShortOf(t *testing.T) {
	const pending, bound = api.Pending, api.Bound
	group := schedtest.MakePodGroup
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		tasks tasks
		// passed are the indices of the tasks that are about to be bound.
		passed []int
		want   string
	}{
		"enough are bound already": {
			group: group().MinMember(2), tasks: tasks{{status: bound}, {status: api.Running}, {status: pending}},
		},
		"those that passed count": {
			group: group().MinMember(2), tasks: tasks{{status: bound}, {status: pending}}, passed: []int{1},
		},
		"a task that passed and is bound counts once": {
			group: group().MinMember(2), tasks: tasks{{status: bound}, {status: pending}}, passed: []int{0},
			want: "1 of minMember 2",
		},
		"succeeded tasks count": {
			group: group().MinMember(2), tasks: tasks{{status: api.Succeeded}, {status: pending}}, passed: []int{1},
		},
		"tasks that are only being bound do not count": {
			group: group().MinMember(2), tasks: tasks{{status: api.Binding}, {status: pending}}, passed: []int{1},
			want: "1 of minMember 2",
		},
		"neither do failed, leaving, allocated, pipelined and unknown ones": {
			group: group().MinMember(1),
			tasks: tasks{{status: api.Failed}, {status: api.Releasing}, {status: api.Allocated}, {status: api.Pipelined}, {status: api.Unknown}},
			want:  "0 of minMember 1",
		},
		"each role has its minimum": {
			group:  group().MinMember(3).MinTaskMember("launcher", 1).MinTaskMember("worker", 2),
			tasks:  tasks{{"launcher", "", pending}, {"worker", "", pending}, {"worker", "", bound}},
			passed: []int{0, 1},
		},
		"a role that is short although the sum is not": {
			group:  group().MinMember(3).MinTaskMember("launcher", 1).MinTaskMember("worker", 2),
			tasks:  tasks{{"launcher", "", pending}, {"worker", "", pending}, {"worker", "", pending}, {"worker", "", bound}},
			passed: []int{1, 2},
			want:   `0 of minTaskMember 1 of "launcher"`,
		},
		"roles whose sum exceeds minMember are no minima": {
			group:  group().MinMember(1).MinTaskMember("launcher", 1).MinTaskMember("worker", 2),
			tasks:  tasks{{"launcher", "", pending}, {"worker", "", pending}, {"worker", "", pending}},
			passed: []int{1},
		},
		"all that is short is named, in order": {
			group: group().MinMember(3).MinTaskMember("worker", 2).MinTaskMember("launcher", 1),
			tasks: tasks{{"launcher", "", pending}},
			want: "0 of minMember 3, " +
				`0 of minTaskMember 1 of "launcher", ` +
				`0 of minTaskMember 2 of "worker"`,
		},
		"of many roles that are short the first are named": {
			group: func() *schedtest.PodGroupBuilder {
				b := group().MinMember(60_000)
				for i := range 60_000 {
					b.MinTaskMember(fmt.Sprintf("r%05d", i), 1)
				}
				return b
			}(),
			tasks: tasks{{status: bound}},
			want: `1 of minMember 60000, 0 of minTaskMember 1 of "r00000", ` +
				`0 of minTaskMember 1 of "r00001", ` +
				`0 of minTaskMember 1 of "r00002" and 59997 more`,
		},
		"a role with a long name is named by its beginning": {
			group: group().MinMember(1).MinTaskMember(strings.Repeat("r", 700_000), 1),
			tasks: tasks{{status: bound}},
			want:  `0 of minTaskMember 1 of "` + strings.Repeat("r", 64) + `"... (and 699936 bytes more)`,
		},
		"enough whole sub-groups": {
			group:  group().MinMember(2).SubGroups("racks", "sub", 1, 2),
			tasks:  tasks{{sub: "a", status: pending}, {sub: "a", status: bound}, {sub: "b", status: pending}, {sub: "b", status: pending}},
			passed: []int{0},
		},
		"two halves of sub-groups are no whole": {
			group:  group().MinMember(2).SubGroups("racks", "sub", 1, 2),
			tasks:  tasks{{sub: "a", status: pending}, {sub: "a", status: pending}, {sub: "b", status: pending}, {sub: "b", status: pending}},
			passed: []int{0, 2},
			want:   `0 of 1 sub-groups of policy "ns/g/racks"`,
		},
		"a policy that needs no sub-group": {
			group: group().MinMember(1).SubGroups("racks", "sub", 0, 2), tasks: tasks{{sub: "a", status: bound}, {sub: "a", status: pending}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, tt.group, tt.tasks)
			var members []*Member
			for _, i := range tt.passed {
				task := job.Tasks[api.TaskID(fmt.Sprintf("ns-p%d", i))]
				members = append(members, NewMember(task, "n", nil))
			}
			got := ""
			if err := ShortOf(job, &job.PodGroup.Spec, Including(members)); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("missing minima of the gang (-want +got):\n%s", diff)
			}
			want := fmt.Sprint(ShortOf(job, &job.PodGroup.Spec, CountsAsBound))
			if got := fmt.Sprint(ShortOfBound(job)); got != want {
				t.Errorf("the bound tasks are short of %s, want %s", got, want)
			}
		})
	}
}

// TestShortOfBoundCountsAsShortOf checks that ShortOfBound counts tasks of each status as ShortOf does.
func TestShortOfBoundCountsAsShortOf(t *testing.T) {
	all := tasks{}
	for status := api.Pending; status <= api.Unknown; status <<= 1 { // Each status is a bit.
		all = append(all, struct {
			role, sub string
			status    api.TaskStatus
		}{status: status})
	}
	for least := range int32(len(all) + 1) {
		job := jobOf(t, schedtest.MakePodGroup().MinMember(least), all)
		want := fmt.Sprint(ShortOf(job, &job.PodGroup.Spec, CountsAsBound))
		if got := fmt.Sprint(ShortOfBound(job)); got != want {
			t.Errorf("with minMember %d the bound tasks are short of %s, want %s", least, got, want)
		}
	}
}

// TestShortOfTakesTheSpecItIsGiven checks that ShortOf uses the given, live spec, not the spec in the cache.
func TestShortOfTakesTheSpecItIsGiven(t *testing.T) {
	job := jobOf(t, schedtest.MakePodGroup().MinMember(1), tasks{{status: api.Bound}, {status: api.Pending}})
	live := &scheduling.PodGroupSpec{MinMember: 2}
	if err := ShortOf(job, live, CountsAsBound); err == nil {
		t.Error("the cached minimum was used in place of the live one")
	}
	if err := ShortOf(job, &job.PodGroup.Spec, CountsAsBound); err != nil {
		t.Errorf("unexpected error: %v", err)
	}
}
