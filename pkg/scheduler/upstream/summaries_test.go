// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// placedSum returns the sum of the requests of the job's placed tasks, and their number.
func placedSum(job *api.JobInfo) (sum *api.Resource, count int) {
	sum = &api.Resource{}
	for _, task := range placed(job.TaskStatusIndex) {
		sum.Add(task.Resreq)
		count++
	}
	return sum, count
}

// TestASummaryAddsUpToTheSame checks that Show does not change the total request of the placed tasks. If counted is
// set, Show does not change their number either.
func TestASummaryAddsUpToTheSame(t *testing.T) {
	tests := map[string]struct {
		placed, waiting int
		evictGPU        bool
		wantTasks       int
	}{
		"few tasks":                          {placed: 3, waiting: 2, wantTasks: 5},
		"many tasks":                         {placed: 50, waiting: 2, wantTasks: 2},
		"no task waits":                      {placed: 50},
		"the only one with a GPU is evicted": {placed: 50, waiting: 2, evictGPU: true, wantTasks: 52},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := api.NewJobInfo(schedtest.Namespace + "/g")
			for i := range tt.placed + tt.waiting {
				pod := schedtest.MakePod().Name(fmt.Sprint("p", i)).UID(fmt.Sprint("p", i)).Group("g").Req(schedtest.Resources{"cpu": fmt.Sprint(1 + i)})
				if i == 0 && tt.evictGPU {
					pod.Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1"})
				}
				if i < tt.placed {
					pod.Node("n").Phase(v1.PodRunning)
				}
				job.AddTaskInfo(api.NewTaskInfo(pod.Obj()))
			}
			if tt.evictGPU {
				if err := job.UpdateTaskStatus(job.Tasks["p0"], api.Releasing); err != nil {
					t.Fatal(err)
				}
			}
			want, wantCount := placedSum(job)
			var summaries Summaries
			summaries.Show(job, false)
			if got, _ := placedSum(job); !cmp.Equal(want, got) {
				t.Errorf("tasks that are not counted request (-want +got):\n%s", cmp.Diff(want, got))
			}
			summaries.Undo()
			summaries.Show(job, true)
			got, count := placedSum(job)
			if diff := cmp.Diff(want, got); diff != "" || count != wantCount {
				t.Errorf("%d placed tasks, want %d, request (-want +got):\n%s", count, wantCount, diff)
			}
			if len(job.Tasks) != tt.wantTasks || len(job.TaskStatusIndex[api.Pending]) != tt.waiting {
				t.Errorf("%d tasks are shown, of which %d wait, want %d and %d", len(job.Tasks), len(job.TaskStatusIndex[api.Pending]), tt.wantTasks, tt.waiting)
			}
			summaries.Undo()
			if len(job.Tasks) != tt.placed+tt.waiting || len(job.TaskStatusIndex[api.Pending]) != tt.waiting {
				t.Errorf("%d tasks remain, want %d", len(job.Tasks), tt.placed+tt.waiting)
			}
		})
	}
}
