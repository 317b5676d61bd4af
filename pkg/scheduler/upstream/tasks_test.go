// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestTasksOfAnyRequestAreRemoved checks that no removal panics after a huge request, because float64 then loses the
// smaller requests. It also checks that a node's sums count as inexact until they are recomputed.
func TestTasksOfAnyRequestAreRemoved(t *testing.T) {
	tests := map[string]struct {
		huge        string
		wantInexact bool
	}{
		"a small request": {huge: "2"},
		"a huge request":  {huge: "9e15", wantInexact: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			node, job := NewNode("n", schedtest.MakeNode().Name("n").Obj()), api.NewJobInfo(schedtest.Namespace+"/g")
			var tasks []*api.TaskInfo
			for i, cpu := range []string{tt.huge, "100m", "100m"} {
				pod := schedtest.MakePod().Name(string(rune('a' + i))).UID(string(rune('a' + i))).Group("g").Node("n").Req(schedtest.Resources{"cpu": cpu})
				task := api.NewTaskInfo(pod.Obj())
				task.Status = api.Binding // the node lacks the resources
				tasks = append(tasks, task)
				AddToJob(job, task)
				if err := AddToNode(node, task); err != nil {
					t.Fatal(err)
				}
				if got := node.Tasks[api.PodKey(task.Pod)].Status; got != api.Binding || task.Status != api.Binding {
					t.Errorf("the task has status %v, on the node %v", task.Status, got)
				}
			}
			inexact := false
			for i, task := range tasks {
				var err error
				if inexact, err = RemoveFromNode(node, task, inexact); err != nil || inexact != tt.wantInexact {
					t.Errorf("task %d: the sums of the node are inexact: %t, want %t, error %v", i, inexact, tt.wantInexact, err)
				}
				emptied, err := RemoveFromJob(job, task)
				if wantEmptied := i == len(tasks)-1; (emptied != "") != wantEmptied || err != nil {
					t.Errorf("task %d: sub-job %q is empty, want one: %t, error %v", i, emptied, wantEmptied, err)
				}
			}
			if len(node.Tasks) > 0 || len(job.Tasks) > 0 {
				t.Errorf("%d tasks stay on the node and %d in the job", len(node.Tasks), len(job.Tasks))
			}
		})
	}
}
