// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAPromiseWithoutPodsEnds: a Volcano Job's gang is let in before its pods exist, so that room is kept for it meanwhile. A tenant that lets
// them never come, deletes them or makes new PodGroups keeps room once an hour.
func TestAPromiseWithoutPodsEnds(t *testing.T) {
	start, node := time.Now(), api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj())
	p := &promises{letIn: map[api.JobID]promise{}, broken: map[string]time.Time{}}
	jobs := map[api.JobID]*api.JobInfo{}
	add := func(name string, after time.Duration) {
		job := api.NewJobInfo(api.JobID(name))
		job.Namespace = "ns"
		job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{Queue: "q"}}})
		job.Namespace = "ns"
		jobs[job.UID] = job
		job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
		p.noteLetIn(job, start.Add(after))
		job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	}
	addPods := func(name string, n int) {
		for i := range n {
			pod := schedtest.MakePod().Name(name + string(rune('a'+i))).Req(schedtest.Resources{"cpu": "4"}).Obj()
			jobs[api.JobID(name)].AddTaskInfo(api.NewTaskInfo(pod))
		}
	}
	// kept is the cpu that a session keeps for the gang.
	kept := func(name string, after time.Duration) float64 {
		ssn := &framework.Session{Session: &vcframework.Session{
			Jobs: jobs, Nodes: map[string]*api.NodeInfo{"n": node}, TotalResource: node.Allocatable.Clone(),
		}}
		for _, job := range jobs {
			job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
		}
		p.forgetPromises(ssn, start.Add(after))
		return jobs[api.JobID(name)].GetMinResources().MilliCPU
	}
	var got []float64
	add("slow", 0)
	got = append(got, kept("slow", promiseFor/2))
	addPods("slow", 1)
	got = append(got, kept("slow", promiseFor-1), kept("slow", promiseFor))
	add("again", 2*promiseFor)
	got = append(got, kept("again", 2*promiseFor))
	addPods("again", 2)
	got = append(got, kept("again", 3*promiseFor))

	kept("slow", 2*time.Hour)
	add("later", 2*time.Hour)
	got = append(got, kept("later", 2*time.Hour))
	addPods("later", 2)
	got = append(got, kept("later", 2*time.Hour+time.Minute))
	add("deleted", 2*time.Hour+2*time.Minute)
	delete(jobs, "deleted")
	kept("slow", 2*time.Hour+2*time.Minute)
	add("after", 2*time.Hour+2*time.Minute)
	got = append(got, kept("after", 2*time.Hour+2*time.Minute))
	if diff := cmp.Diff([]float64{8000, 8000, 4000, 0, 8000, 8000, 8000, 0}, got); diff != "" {
		t.Errorf("cpu kept (-want +got):\n%s", diff)
	}
	if len(p.letIn)+len(p.broken) != 1 {
		t.Errorf("%d promises and %d namespaces are remembered", len(p.letIn), len(p.broken))
	}
}
