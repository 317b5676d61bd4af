package cache

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestWaitingPodsAreToldAgain: the API server drops an event after an hour; a pod that waits on is told again then, and
// not before, with what its condition says.
func TestWaitingPodsAreToldAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		w.settled()
		var told []int
		for half := range 6 {
			tellings := 0
			for range 30 { // a cycle each minute
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
						tellings++
					}
				}
			}
			told = append(told, tellings)
		}
		if diff := cmp.Diff([]int{1, 0, 1, 0, 1, 0}, told); diff != "" {
			t.Errorf("events of the pod in each half hour, of which the fifth has another verdict (-want +got):\n%s", diff)
		}
		w.forgetGang(gang)
		if len(w.retold) != 0 {
			t.Errorf("%d gangs are remembered after the last was deleted", len(w.retold))
		}
	})
}
