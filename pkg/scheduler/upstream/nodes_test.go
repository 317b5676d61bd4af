// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestACopyHasTasksThatFindNoRoom checks that the copy of a node keeps a task that is being bound, even if the node has
// shrunk and the task no longer fits.
func TestACopyHasTasksThatFindNoRoom(t *testing.T) {
	source := api.NewNodeInfo(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "2", "pods": "10"}).Obj())
	task := api.NewTaskInfo(schedtest.MakePod().Name("p").UID("p").Req(schedtest.Resources{"cpu": "1"}).Node("n").Phase(v1.PodRunning).Obj())
	if err := source.AddTask(task); err != nil {
		t.Fatal(err)
	}
	source.Tasks[api.PodKey(task.Pod)].Status = api.Binding
	source.Node.Status.Allocatable = schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "0"}).Obj().Status.Allocatable
	got := CloneNode(source)
	if len(got.Tasks) != 1 || got.Tasks[api.PodKey(task.Pod)].Status != api.Binding {
		t.Errorf("the copy has tasks %v, want the one that is being bound", got.Tasks)
	}
}
