// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"slices"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestJobsAreViewedInTurns checks that jobs are viewed in batches: the mutex is released after a number of tasks, and
// each job is seen once.
func TestJobsAreViewedInTurns(t *testing.T) {
	b := New(Config{DefaultQueue: schedtest.Queue})
	for i := range 3 * viewedAtOnce / 4 {
		name := fmt.Sprintf("g%d", i)
		if err := b.Jobs.ShowGroup(schedtest.MakePodGroup().Name(name).Obj()); err != nil {
			t.Fatal(err)
		}
		b.Pods.Show(schedtest.MakePod().Name(name).Group(name).Obj())
	}
	seen := map[api.JobID]int{}
	ids := append(b.Jobs.IDs(), "ns/gone")
	left := b.Jobs.viewSome(slices.Clone(ids), func(job *api.JobInfo) { seen[job.UID]++ })
	if len(seen) != viewedAtOnce/2 || len(left) != len(ids)-viewedAtOnce/2 {
		t.Errorf("%d gangs of two are seen at once and %d are left of %d, want %d seen", len(seen), len(left), len(ids), viewedAtOnce/2)
	}
	b.Jobs.View(left, func(job *api.JobInfo) { seen[job.UID]++ })
	for id, n := range seen {
		if n != 1 {
			t.Errorf("gang %s is seen %d times", id, n)
		}
	}
	if len(seen) != len(ids)-1 {
		t.Errorf("%d gangs are seen, want %d", len(seen), len(ids)-1)
	}
}

// TestAnyWaiting checks that AnyWaiting also counts pods that sessions do not see. In the outage that led to this
// test, pods waited for a late PodGroup, no session had them, and the loop went idle for ever.
func TestAnyWaiting(t *testing.T) {
	pod := func() *schedtest.PodBuilder { return schedtest.MakePod().Name("p0").Group("g") }
	group := func(phase v1beta1.PodGroupPhase) *v1beta1.PodGroup {
		return schedtest.MakePodGroup().Name("g").Phase(phase).Obj()
	}
	tests := map[string]struct {
		pod   *schedtest.PodBuilder
		group *v1beta1.PodGroup
		want  bool
	}{
		"nothing":                       {},
		"a pod without its PodGroup":    {pod: pod(), want: true},
		"a PodGroup without pods":       {group: schedtest.MakePodGroup().Name("g").Obj(), want: true},
		"a pod of a PodGroup that runs": {group: group(v1beta1.PodGroupRunning), pod: pod(), want: true},
		"a PodGroup that runs":          {group: group(v1beta1.PodGroupRunning)},
		"a PodGroup that has ended":     {group: group(v1beta1.PodGroupCompleted)},
		"a pod on a node":               {group: group(v1beta1.PodGroupRunning), pod: pod().Node("n").Phase("Running")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := New(Config{DefaultQueue: schedtest.Queue})
			b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
			if tt.group != nil {
				if err := b.Jobs.ShowGroup(tt.group); err != nil {
					t.Fatal(err)
				}
			}
			if tt.pod != nil {
				b.Pods.Show(tt.pod.Obj())
			}
			if got := b.Jobs.AnyWaiting(); got != tt.want {
				t.Errorf("something waits: %v, want %v", got, tt.want)
			}
		})
	}
}
