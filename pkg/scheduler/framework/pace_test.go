// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestChangedCountsDoNotEndAPause checks that a changed minResources of an admitted gang does not end a pause: sessions
// set it to the resources that the gang holds (CapMinResources). It ends the pause of a gang that is not admitted yet,
// because then a user has changed it.
func TestChangedCountsDoNotEndAPause(t *testing.T) {
	cases := map[string]struct {
		phase scheduling.PodGroupPhase
		want  string
	}{
		"that was admitted": {scheduling.PodGroupInqueue, "1 node short of cpu"},
		"that runs":         {scheduling.PodGroupRunning, "1 node short of cpu"},
		"that was not":      {scheduling.PodGroupPending, "2 nodes short of cpu"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := api.NewJobInfo("ns/g")
			job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Status: scheduling.PodGroupStatus{Phase: tc.phase}}})
			job.Allocated = api.NewResource(v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")})
			CapMinResources(job)
			lastReports := lastReports{}
			lastReports.pace(job, PendingReason{Reason: NotEnoughResources, Message: "1 node short of cpu"})
			job.Allocated = api.EmptyResource()
			CapMinResources(job)
			if got := lastReports.pace(job, PendingReason{Reason: NotEnoughResources, Message: "2 nodes short of cpu"}); got.Message != tc.want {
				t.Errorf("the reason is %q, want %q", got.Message, tc.want)
			}
		})
	}
}
