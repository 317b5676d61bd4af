// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
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
			upstream.CapMinResources(job)
			lastReports := lastReports{}
			lastReports.pace(job, framework.PendingReason{Reason: framework.NotEnoughResources, Message: "1 node short of cpu"})
			job.Allocated = api.EmptyResource()
			upstream.CapMinResources(job)
			if got := lastReports.pace(job, framework.PendingReason{Reason: framework.NotEnoughResources, Message: "2 nodes short of cpu"}); got.Message != tc.want {
				t.Errorf("the reason is %q, want %q", got.Message, tc.want)
			}
		})
	}
}

// TestAReasonOfAnotherKindIsNotHeldBackForLong checks how long a paused kind of reason is held back while the last
// report has a reason of another kind. Kinds that alternate with pods of other users are held back for their pause.
func TestAReasonOfAnotherKindIsNotHeldBackForLong(t *testing.T) {
	for between, want := range map[string]time.Duration{framework.QueueNotOpen: firstPause, framework.QueueFull: 4 * firstPause} {
		t.Run(between, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := api.NewJobInfo("ns/g")
				job.SetPodGroup(&api.PodGroup{})
				reports, n := lastReports{}, 0
				report := func(reason string) string {
					n++
					return reports.pace(job, framework.PendingReason{Reason: reason, Message: fmt.Sprint(n)}).Reason
				}
				report(framework.NotEnoughResources)
				for pause := firstPause; pause <= 2*firstPause; pause *= 2 { // the next pause is four times firstPause
					time.Sleep(pause)
					report(framework.NotEnoughResources)
				}
				report(between)
				began := time.Now()
				for report(framework.NotEnoughResources) != framework.NotEnoughResources {
					time.Sleep(time.Second)
				}
				if took := time.Since(began); took != want {
					t.Errorf("%s followed %s after %v, want %v", framework.NotEnoughResources, between, took, want)
				}
			})
		})
	}
}
