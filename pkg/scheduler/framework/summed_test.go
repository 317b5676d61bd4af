// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/drf"
	"volcano.sh/volcano/pkg/scheduler/plugins/overcommit"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var summedWorlds = rounds.Flag("summed.worlds", 15, 300, "how many random worlds plugins of upstream open on as they are and on summaries")

// queues is a cache that records the allocated resources of queues when sessions close.
type queues struct {
	*recordingCache
	allocated map[string]v1.ResourceList
}

func (q *queues) UpdateQueueStatus(queue *api.QueueInfo) error {
	q.allocated[queue.Name] = queue.Queue.Status.Allocated
	return nil
}

// randomQueues returns a cache with two queues and random jobs.
func randomQueues(t *testing.T, r *rand.Rand) *queues {
	t.Helper()
	c := &queues{newRecordingCache(t), map[string]v1.ResourceList{}}
	for i := range 3 {
		node := schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Capacity(schedtest.Resources{"cpu": "200", "memory": "400Gi", "nvidia.com/gpu": "64", "pods": "200"}).Obj()
		if err := c.AddOrUpdateNode(node); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		queue := schedtest.MakeQueue().Name(fmt.Sprintf("q%d", i)).Capability(schedtest.Resources{"cpu": fmt.Sprint(20 + r.IntN(200))})
		c.AddQueueV1beta1(queue.Obj())
	}
	phases := []v1beta1.PodGroupPhase{v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupRunning}
	for g := range 8 {
		name, size := fmt.Sprintf("g%d", g), r.IntN(12)
		group := schedtest.MakePodGroup().Name(name).MinMember(int32(1 + r.IntN(8))).Queue(fmt.Sprintf("q%d", r.IntN(2))).Phase(phases[r.IntN(len(phases))])
		if r.IntN(2) == 0 {
			group.MinResources(schedtest.Resources{"cpu": fmt.Sprint(1 + r.IntN(40)), "nvidia.com/gpu": fmt.Sprint(r.IntN(9))})
		}
		c.AddPodGroupV1beta1(group.Obj())
		for i := range size {
			c.AddPod(randomMember(r, name, fmt.Sprintf("%s-%d", name, i)))
		}
	}
	return c
}

// randomMember returns a pod of the gang that waits, has a gate, runs, terminates or has ended.
func randomMember(r *rand.Rand, gang, name string) *v1.Pod {
	requests := schedtest.Resources{"cpu": fmt.Sprintf("%dm", 100+r.IntN(5000)), "memory": fmt.Sprintf("%dMi", 1+r.IntN(5000))}
	if gpus := r.IntN(5); gpus < 3 {
		requests["nvidia.com/gpu"] = fmt.Sprint(gpus)
	}
	pod := schedtest.MakePod().Name(name).UID(name).Group(gang).Req(requests)
	switch r.IntN(8) {
	case 0:
	case 1:
		gated := pod.Obj()
		gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
		return gated
	case 2:
		pod.Node("n1").Phase(v1.PodSucceeded)
	case 3:
		pod.Node("n2").Phase(v1.PodRunning).Terminating()
	default:
		pod.Node(fmt.Sprintf("n%d", r.IntN(3))).Phase(v1.PodRunning)
	}
	return pod.Obj()
}

// TestPluginsKnowFromSummariesWhatTheyKnowFromTasks checks that an upstream plugin that opens on summaries of jobs
// computes the same as on the jobs with all their tasks.
func TestPluginsKnowFromSummariesWhatTheyKnowFromTasks(t *testing.T) {
	builders := map[string]func(vcframework.Arguments) vcframework.Plugin{
		"drf": drf.New, "proportion": proportion.New, "capacity": capacity.New, "overcommit": overcommit.New,
	}
	for seed := range uint64(summedWorlds.Of(t)) {
		r := rand.New(rand.NewPCG(seed, 20))
		c := randomQueues(t, r)
		var ssn *vcframework.Session
		opening := &openingJobs{}
		for i, name := range slices.Concat(addingPlugins[:], addingPlugins[:]) {
			if i == 0 || r.IntN(2) == 0 {
				ssn = vcframework.OpenSession(c, nil, nil) // otherwise the plugins open in the same session
			}
			jobs := map[api.JobID]string{}
			for id, job := range ssn.Jobs {
				jobs[id] = fmt.Sprint(len(job.Tasks), len(job.TaskStatusIndex), len(job.TaskStatusIndex[api.Running]))
			}
			asTheyAre := builders[name](vcframework.Arguments{})
			undo := func() {}
			if name != "drf" {
				undo = countHeldOnly(ssn.Jobs)
			}
			asTheyAre.OnSessionOpen(ssn)
			undo()
			summed := summedPlugin{builders[name](vcframework.Arguments{}), opening}
			summed.OnSessionOpen(ssn)
			if !reflect.DeepEqual(asTheyAre, summed.Plugin) {
				t.Fatalf("world %d: plugin %s differs on summaries:\n%+v\nwant\n%+v", seed, name, summed.Plugin, asTheyAre)
			}
			for id, job := range ssn.Jobs {
				if got := fmt.Sprint(len(job.Tasks), len(job.TaskStatusIndex), len(job.TaskStatusIndex[api.Running])); got != jobs[id] {
					t.Fatalf("world %d: after plugin %s job %s has %s tasks, statuses and running tasks, want %s", seed, name, id, got, jobs[id])
				}
			}
		}
	}
}

// TestQueuesHaveWhatTheirTasksRequest checks the allocated resources that a queue has when a session closes. They
// include tasks that the session placed, and do not include tasks that it evicted.
func TestQueuesHaveWhatTheirTasksRequest(t *testing.T) {
	for seed := range uint64(summedWorlds.Of(t)) {
		r := rand.New(rand.NewPCG(seed, 21))
		c := randomQueues(t, r)
		registry := NewRegistry()
		profile, err := registry.Build(ProfileInput{Tiers: []conf.Tier{tier("drf", "proportion")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ssn := registry.OpenSession(c, profile)
		if _, summed := mustBuild(t, "drf").(summedPlugin); !summed {
			t.Fatal("drf does not open on summaries")
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

// TestAPluginIsWrappedOnce checks that a plugin is wrapped once, however often configurations with it are built.
func TestAPluginIsWrappedOnce(t *testing.T) {
	for range 3 {
		if _, err := NewRegistry().Build(ProfileInput{Tiers: []conf.Tier{tier("drf")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	wrapped, ok := mustBuild(t, "drf").(summedPlugin)
	if _, twice := wrapped.Plugin.(summedPlugin); !ok || twice {
		t.Errorf("drf is wrapped: %t, and twice: %t; want once", ok, twice)
	}
}
