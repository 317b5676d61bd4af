// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// randomJob returns a job with tasks that wait, are being bound, run or have ended. Some of them have affinity.
func randomJob(r *rand.Rand, id api.JobID) *api.JobInfo {
	job := api.NewJobInfo(id)
	for i := range r.IntN(5) {
		name := fmt.Sprintf("%s-%d", id, i)
		pod := schedtest.MakePod().Name(name).UID(name)
		if r.IntN(3) == 0 {
			pod.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}})
		}
		kind := r.IntN(5)
		if kind > 1 {
			pod.Node("n").Phase([]v1.PodPhase{v1.PodRunning, v1.PodSucceeded, v1.PodRunning}[kind-2])
		}
		task := api.NewTaskInfo(pod.Obj())
		if kind == 1 {
			task.NodeName, task.Status = "n", api.Binding
		}
		job.AddTaskInfo(task)
	}
	return job
}

// TestPlacedPodsAreThePodsOfTheSession checks that the placed pods are the pods of the session and do not depend on
// former sessions.
func TestPlacedPodsAreThePodsOfTheSession(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		var kept PlacedPods
		jobs := map[api.JobID]*api.JobInfo{}
		for session := range 20 {
			for id := range 4 {
				id := api.JobID(fmt.Sprint("j", id))
				switch r.IntN(6) {
				case 0:
					jobs[id] = randomJob(r, id)
				case 1:
					delete(jobs, id)
				}
			}
			ssn := &vcframework.Session{Jobs: maps.Clone(jobs)}
			lister, want := kept.lister(ssn), new(PlacedPods).lister(ssn)
			if !maps.Equal(lister.Tasks, want.Tasks) || !maps.Equal(lister.TaskWithAffinity, want.TaskWithAffinity) ||
				!slices.Equal(slices.Sorted(maps.Keys(lister.CachedPods)), slices.Sorted(maps.Keys(want.CachedPods))) {
				t.Fatalf("seed %d, session %d: the pods are %v, want %v", seed, session, lister.Tasks, want.Tasks)
			}
			for _, pod := range lister.CachedPods {
				if pod.Spec.NodeName != "n" {
					t.Errorf("seed %d, session %d: pod %s is on node %q, want n", seed, session, pod.Name, pod.Spec.NodeName)
				}
			}
			placeSome(t, r, ssn, lister, jobs)
			if r.IntN(5) > 0 {
				kept.Keep()
				continue
			}
			for uid, task := range lister.Tasks { // as an unknown plugin does
				lister.Tasks[uid] = task.Clone()
			}
		}
	}
}

// placeSome places pending tasks and reverts some of them. The next session has new copies of the jobs that still
// have placed tasks.
func placeSome(t *testing.T, r *rand.Rand, ssn *vcframework.Session, lister *vcframework.PodLister, jobs map[api.JobID]*api.JobInfo) {
	t.Helper()
	for id, job := range ssn.Jobs {
		for _, task := range slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending])) {
			for _, status := range []api.TaskStatus{api.Allocated, api.Pending}[:r.IntN(3)] {
				if err := job.UpdateTaskStatus(task, status); err != nil {
					t.Fatal(err)
				}
				if r.IntN(4) > 0 || status == api.Allocated { // A plugin may miss that a placement is reverted.
					lister.UpdateTask(task, "n")
				}
			}
			if task.Status == api.Allocated {
				jobs[id] = randomJob(r, id)
			}
		}
	}
}
