// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWaitingPodsAreReportedAgain checks that waiting pods are reported again. The API server drops an event after an
// hour. A pod that still waits then gets another event, not earlier, with the text of its condition.
func TestWaitingPodsAreReportedAgain(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.settled()
		var told []int
		for half := range 6 {
			reports := 0
			for range 30 { // one cycle per minute
				w.verdict(func(job *api.JobInfo) {
					saysUnschedulable(job)
					if half > 3 {
						setCondition(&job.PodGroup.Status, unschedulable("NotEnoughResources", "no room at all"))
					}
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				w.sync("p0")
				for _, e := range w.cluster.Events.Take() {
					if strings.HasPrefix(e, "Warning FailedScheduling p0: no room") {
						reports++
					}
				}
			}
			told = append(told, reports)
		}
		if diff := cmp.Diff([]int{1, 0, 1, 0, 1, 0}, told); diff != "" {
			t.Errorf("events of the pod in each half hour, of which the fifth has another verdict (-want +got):\n%s", diff)
		}
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		if left := w.cache.reports.Remembered(); left != 0 {
			t.Errorf("%d things are remembered after the last gang was deleted", left)
		}
	})
}

// TestWhichPodsAreReportedAgain: A new leader does not at once report all pods that the former leader reported. Later
// it does, but it repeats only reports that the scheduler itself has written.
func TestWhichPodsAreReportedAgain(t *testing.T) {
	tests := map[string]struct {
		reason string
		after  time.Duration
		want   int
	}{
		"a pod reported before this leader":            {reason: v1.PodReasonUnschedulable},
		"a pod reported before this leader, and waits": {reason: v1.PodReasonUnschedulable, after: report.ResendEvery, want: 1},
		"a pod with scheduling gates":                  {reason: v1.PodReasonSchedulingGated, after: report.ResendEvery},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				waits := pod(0).Gate("quota").Obj()
				waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: tt.reason, Message: "no room"}}
				w.add(waits)
				w.settled()
				w.verdict(func(*api.JobInfo) {})
				time.Sleep(tt.after)
				w.verdict(func(*api.JobInfo) {})
				if got := len(w.cluster.Events.Take()); got != tt.want {
					t.Errorf("the pod was reported %d times, want %d", got, tt.want)
				}
			})
		})
	}
}
