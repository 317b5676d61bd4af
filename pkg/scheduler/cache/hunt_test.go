// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// gangs is a snapshot of that many PodGroups named 0 and on.
func gangs(n int) *api.ClusterInfo {
	snapshot := &api.ClusterInfo{Jobs: map[api.JobID]*api.JobInfo{}, Queues: map[api.QueueID]*api.QueueInfo{}, Nodes: map[string]*api.NodeInfo{}}
	for i := range n {
		id := api.JobID(fmt.Sprint(i))
		job := api.NewJobInfo(id)
		job.PodGroup = &api.PodGroup{}
		snapshot.Jobs[id] = job
	}
	return snapshot
}

// TestAHuntIsShort: the culprit is found, and everyone else is in sessions again, in a number of cycles that grows with the
// logarithm of the number of gangs.
func TestAHuntIsShort(t *testing.T) {
	for n, most := range map[int]int{1: 4, 10: 14, 1000: 30, 20000: 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h, now := newHunt(), time.Unix(0, 0)
			culprit := api.JobID(fmt.Sprint(n / 3))
			for cycle := 1; ; cycle++ {
				snapshot := gangs(n)
				h.leaveOut(snapshot, now)
				if _, there := snapshot.Jobs[culprit]; there {
					h.panicked(now, "", "oh no")
				} else {
					h.succeeded()
				}
				if len(snapshot.Jobs) == n-1 && !h.searching() {
					return
				}
				if cycle > most {
					t.Fatalf("after %d cycles %d gangs are in the session, %d held", cycle, len(snapshot.Jobs), len(h.held))
				}
			}
		})
	}
}

// TestAPanicThatIsToldLateHoldsNobody: the cycle after the one that panicked is taken for it.
func TestAPanicThatIsToldLateHoldsNobody(t *testing.T) {
	h, now := newHunt(), time.Unix(0, 0)
	for range 3 { // with all, without any, and with the only one there is
		h.leaveOut(gangs(1), now)
		if len(h.seen.Jobs) == 0 {
			h.succeeded()
		} else {
			h.panicked(now, "", "oh no")
		}
	}
	if len(h.held) != 0 || !h.searching() {
		t.Fatalf("%d items are held after one try, and the search goes on: %t; want none, and that it does", len(h.held), h.searching())
	}
	h.leaveOut(gangs(1), now)
	h.succeeded()
	if len(h.held) != 0 || h.searching() {
		t.Errorf("%d items are held, and the search goes on: %t; want none, and that it is over", len(h.held), h.searching())
	}
}

// TestAHeldGangComesBack after a wait that doubles, and sooner when it changed.
func TestAHeldGangComesBack(t *testing.T) {
	tests := map[string]struct {
		change bool
		waits  []time.Duration
	}{
		"unchanged": {waits: []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}},
		"changed":   {change: true, waits: []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, now := newHunt(), time.Unix(0, 0)
			h.leaveOut(gangs(3), now)
			h.panicked(now, "1", "oh no")
			h.leaveOut(gangs(3), now)
			h.succeeded()
			var waits []time.Duration
			for range tt.waits {
				h.leaveOut(gangs(3), now) // notes what it looks like
				start := now
				for {
					now = now.Add(time.Second)
					snapshot := gangs(3)
					if tt.change {
						snapshot.Jobs["1"].PodGroup.Spec = scheduling.PodGroupSpec{MinMember: int32(now.Unix())}
					}
					h.leaveOut(snapshot, now)
					if snapshot.Jobs["1"] != nil {
						break
					}
				}
				waits = append(waits, now.Sub(start))
				h.panicked(now, "2", "oh no") // whoever's turn it was: the one that came back is it
			}
			if diff := cmp.Diff(tt.waits, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if len(h.held) != 1 {
				t.Errorf("%d are held, want 1", len(h.held))
			}
		})
	}
}

// TestAHeldGangThatIsWellIsForgotten, as is one that is gone.
func TestAHeldGangThatIsWellIsForgotten(t *testing.T) {
	for name, end := range map[string]func(h *hunt, now time.Time){
		"well": func(h *hunt, now time.Time) { h.leaveOut(gangs(3), now.Add(time.Minute)); h.succeeded() },
		"gone": func(h *hunt, now time.Time) { h.leaveOut(gangs(1), now) },
	} {
		t.Run(name, func(t *testing.T) {
			h, now := newHunt(), time.Unix(0, 0)
			h.leaveOut(gangs(3), now)
			h.panicked(now, "1", "oh no")
			h.leaveOut(gangs(3), now)
			if found, _ := h.succeeded(); !cmp.Equal(found, []item{{podGroupItem, "1"}}, cmp.AllowUnexported(item{})) {
				t.Fatalf("found guilty: %v", found)
			}
			end(h, now)
			if len(h.held) > 0 {
				t.Errorf("held: %v", h.held)
			}
		})
	}
}
