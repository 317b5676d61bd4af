// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestSubJobsEndWithTheirTasks checks that sub-jobs end with their tasks. A tenant may give a pod another label as
// often as it likes, and each value creates a sub-job. A session's record about a sub-job stays while the sub-job has
// a task.
func TestSubJobsEndWithTheirTasks(t *testing.T) {
	b := newBooks(t)
	group := schedtest.MakePodGroup().Name("g").Obj()
	group.Spec.SubGroupPolicy = []v1beta1.SubGroupPolicySpec{{Name: "by-label", SubGroupSize: new(int32(1)), MatchLabelKeys: []string{"part"}}}
	b.Jobs.HideGroup(gang)
	if err := b.Jobs.ShowGroup(group); err != nil {
		t.Fatal(err)
	}
	pod := func(name, part string) {
		b.Pods.Show(schedtest.MakePod().Name(name).UID(name).Group("g").Label("part", part).Obj())
	}
	pod("stays", "steady")
	for id := range b.Jobs.Get(gang).SubJobs {
		b.Jobs.NoteHyperNodes(&api.JobInfo{UID: gang, PgUID: group.UID, SubJobs: map[api.SubJobID]*api.SubJobInfo{id: {AllocatedHyperNode: "leaf"}}})
	}
	for i := range 10 {
		pod("p", fmt.Sprint(i))
		pod("stays", "steady")
	}
	b.Pods.Hide(schedtest.MakePod().Name("p").UID("p").Obj())
	subs := b.Jobs.Get(gang).SubJobs
	if len(subs) != 1 {
		t.Errorf("the job has %d sub-jobs, want the one that has a task", len(subs))
	}
	for _, sub := range subs {
		if len(sub.Tasks) == 1 && sub.AllocatedHyperNode != "leaf" {
			t.Errorf("the HyperNode of the remaining sub-job is %q, want leaf", sub.AllocatedHyperNode)
		}
	}
}
