// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var closingWorlds = rounds.Flag("closing.worlds", 15, 300, "in how many random worlds a session with summed plugins closes")

// queues is a cache that records the allocated resources of queues when sessions close.
type queues struct {
	*recordingCache
	allocated map[string]v1.ResourceList
}

func (q *queues) UpdateQueueStatus(queue *api.QueueInfo) error {
	q.allocated[queue.Name] = queue.Queue.Status.Allocated
	return nil
}

// TestQueuesHaveWhatTheirTasksRequest checks the allocated resources that a queue has when a session closes. They
// include tasks that the session placed, and do not include tasks that it evicted.
func TestQueuesHaveWhatTheirTasksRequest(t *testing.T) {
	for seed := range uint64(closingWorlds.Of(t)) {
		r := rand.New(rand.NewPCG(seed, 21))
		c := &queues{newRecordingCache(t), map[string]v1.ResourceList{}}
		if err := schedtest.AddRandomGangs(c.SchedulerCache, r); err != nil {
			t.Fatal(err)
		}
		registry := NewRegistry()
		profile, err := registry.Build(ProfileInput{Tiers: []conf.Tier{tier("drf", "proportion")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ssn := registry.OpenSession(c, profile)
		if got := fmt.Sprintf("%T", mustBuild(t, "drf")); got != "upstream.summedPlugin" {
			t.Fatalf("drf does not open on summaries: its type is %s", got)
		}
		jobs := ssn.Jobs
		want, tasks := map[string]*api.Resource{}, map[api.JobID]int{}
		for _, job := range jobs {
			changeSome(t, r, job)
			tasks[job.UID] = len(job.Tasks)
			for _, task := range job.Tasks {
				if api.AllocatedStatus(task.Status) {
					if want[string(job.Queue)] == nil {
						want[string(job.Queue)] = &api.Resource{}
					}
					want[string(job.Queue)].Add(task.Resreq)
				}
			}
		}
		registry.CloseSession(ssn)
		for queue, sum := range want {
			if diff := cmp.Diff(util.ConvertRes2ResList(sum), c.allocated[queue], cmp.Comparer(func(a, b v1.ResourceList) bool { return equality.Semantic.DeepEqual(a, b) })); diff != "" {
				t.Errorf("world %d: queue %s has allocated (-want +got):\n%s", seed, queue, diff)
			}
		}
		for id, job := range jobs {
			if len(job.Tasks) != tasks[id] {
				t.Errorf("world %d: job %s has %d tasks after the session, want %d", seed, id, len(job.Tasks), tasks[id])
			}
		}
	}
}

// changeSome places some tasks of the job and evicts others.
func changeSome(t *testing.T, r *rand.Rand, job *api.JobInfo) {
	t.Helper()
	for _, task := range job.Tasks {
		status := task.Status
		switch {
		case status == api.Pending && r.IntN(3) == 0:
			status = api.Allocated
		case status == api.Running && r.IntN(6) == 0:
			status = api.Releasing
		}
		if status != task.Status {
			if err := job.UpdateTaskStatus(task, status); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func mustBuild(t *testing.T, plugin string) vcframework.Plugin {
	t.Helper()
	build, ok := vcframework.GetPluginBuilder(plugin)
	if !ok {
		t.Fatalf("plugin %s is not registered", plugin)
	}
	return build(vcframework.Arguments{})
}
