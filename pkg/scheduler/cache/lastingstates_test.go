// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// refusing is a plugin whose pre-bind step fails. With stuck set, its rollback fails as well.
type refusing struct{ stuck bool }

func (refusing) Name() string                      { return "refusing" }
func (refusing) OnSessionClose(*framework.Session) {}
func (refusing) OnSessionOpen(*framework.Session)  {}

func (refusing) PreBind(context.Context, *api.TaskInfo, string) error {
	return errors.New("the storage is away")
}

func (p refusing) Rollback(context.Context, *api.TaskInfo, string) error {
	if p.stuck {
		return errors.New("the storage is away still")
	}
	return nil
}

// TestLastingStatesAreReportedAgain checks that a lasting state is reported once an hour, because the API server drops
// events after that time.
func TestLastingStatesAreReportedAgain(t *testing.T) {
	group := func(queue string) *schedtest.PodGroupBuilder {
		return schedtest.MakePodGroup().Name("g").MinMember(1).Queue(queue)
	}
	const unschedulable = "Unschedulable g"
	tests := map[string]struct {
		group  *schedtest.PodGroupBuilder
		plugin refusing
		runs   bool
		want   []string
	}{
		"a pre-bind step fails again and again": {
			group: group(schedtest.Queue), want: []string{"PreBindFailed p0", "PreBindFailed g"},
		},
		"a rollback is stuck": {
			group: group(schedtest.Queue), plugin: refusing{stuck: true}, want: []string{"RollbackStuck p0"},
		},
		"its PodGroup does not exist": {want: []string{"FailedScheduling p0"}},
		"its queue does not exist":    {group: group("nosuch"), want: []string{"FailedScheduling p0", unschedulable}},
		"its minResources are below 0": {
			group: group(schedtest.Queue).MinResources(schedtest.Resources{"cpu": "-5"}),
			want:  []string{"FailedScheduling p0", "InvalidResources g"},
		},
		"its minResources are below 0 and part of it runs": {
			group: group(schedtest.Queue).MinResources(schedtest.Resources{"cpu": "-5"}), runs: true,
			want: []string{"FailedScheduling p0", "InvalidResources g"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(nodeOf8(0).Obj(), members(1, "1")[0].Obj())
				if tt.group != nil {
					w.add(tt.group.Obj())
				}
				if tt.runs {
					w.add(pod(1).Node("n00").Phase(v1.PodRunning).Obj())
				}
				s := newSessions(w, explainConf("refusing"), framework.PluginSpec{
					Name: "refusing", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return tt.plugin, nil }),
				})
				cycles := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						s.cycle()
						w.sync("p0")
						if tt.group != nil {
							w.deliver(w.cluster.PodGroup("g"))
						}
						time.Sleep(30 * time.Second)
						synctest.Wait()
					}
				}
				once := map[string]int{}
				for _, what := range tt.want {
					once["Warning "+what] = 1
				}
				reported := func() map[string]int {
					count := map[string]int{}
					for _, event := range w.cluster.Events.Take() {
						what, _, _ := strings.Cut(event, ":")
						if once[what] > 0 {
							count[what]++
						}
					}
					return count
				}
				cycles(report.ResendEvery + 5*time.Minute)
				if diff := cmp.Diff(once, reported()); diff != "" {
					t.Errorf("reported at first (-want +got):\n%s", diff)
				}
				cycles(30 * time.Minute)
				if diff := cmp.Diff(map[string]int{}, reported()); diff != "" {
					t.Errorf("reported while the events exist (-want +got):\n%s", diff)
				}
				cycles(time.Hour)
				if diff := cmp.Diff(once, reported()); diff != "" {
					t.Errorf("reported after they have expired (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTheMemoryOfDeletedGangsIsReleased checks that the memory of deleted gangs is released. A session works on a
// gang that is deleted in the meantime.
func TestTheMemoryOfDeletedGangsIsReleased(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(members(1, "16")[0].Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
		job := w.cache.Snapshot().Jobs[gang]
		closes := func() {
			t.Helper()
			if _, err := w.cache.UpdateJobStatus(job, true, false, false); err != nil {
				t.Fatal(err)
			}
		}
		closes()
		time.Sleep(2 * statuswriter.Settle)
		if closes(); w.cache.reports.Remembered() != 2 {
			t.Errorf("%d things are remembered, want when the gang arrived and when it was reported on", w.cache.reports.Remembered())
		}
		w.remove(schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
		if closes(); w.cache.reports.Remembered() != 0 {
			t.Errorf("%d records are kept, want none for a deleted gang", w.cache.reports.Remembered())
		}
	})
}
