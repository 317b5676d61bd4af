// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// oneGangGroup puts all jobs into one gang group.
type oneGangGroup struct{ gangGroup *binding.GangGroup }

func (u oneGangGroup) GangGroup(*api.JobInfo) *binding.GangGroup { return u.gangGroup }

type evicted func(Eviction)

func (fn evicted) Evicted(e Eviction) { fn(e) }

func (evicted) Nominees(*api.JobInfo) map[api.TaskID]bool { return nil }
func (evicted) Leaving(*api.TaskInfo) []*api.TaskInfo     { return nil }

// TestEvictionsOfActionsWaitWhereGangsAreGrouped checks that evictions of actions are deferred until the session
// closes if gangs are in groups. Evictions by a plugin itself are sent at once.
func TestEvictionsOfActionsWaitWhereGangsAreGrouped(t *testing.T) {
	for action, atOnce := range map[string]int{"preempt": 0, "": 1} {
		t.Run("action "+action, func(t *testing.T) {
			r := NewRegistry()
			ssn := open(t, r, newRecordingCache(t), ProfileInput{})
			ssn.Placements.add("p", oneGangGroup{&binding.GangGroup{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/g"}, {Gang: "ns/h"}}}}, nil)
			sent := 0
			ssn.Placements.add("p", evicted(func(Eviction) { sent++ }), nil)
			ssn.Action = action
			for _, task := range ssn.Jobs["ns/g"].Tasks {
				if err := ssn.Evict(task, "reason"); err != nil {
					t.Fatal(err)
				}
				break
			}
			if sent != atOnce {
				t.Errorf("%d evictions are sent at once, want %d", sent, atOnce)
			}
			if r.CloseSession(ssn); sent != 1 {
				t.Errorf("%d evictions are sent when the session is closed, want 1", sent)
			}
		})
	}
}

// TestAHeldEvictionThatFailsLeavesThePodRunning checks that a deferred eviction that fails leaves the pod running in
// the session, which goes on to write statuses.
func TestAHeldEvictionThatFailsLeavesThePodRunning(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want api.TaskStatus
	}{"it is sent": {nil, api.Releasing}, "it fails": {errors.New("no"), api.Running}} {
		t.Run(name, func(t *testing.T) {
			r, k := NewRegistry(), newRecordingCache(t)
			k.AddPod(schedtest.MakePod().Name("victim").Group("g").Node("n").Phase(v1.PodRunning).Obj())
			k.evictErr = c.err
			ssn := open(t, r, k, ProfileInput{})
			ssn.Placements.add("p", oneGangGroup{&binding.GangGroup{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/g"}, {Gang: "ns/h"}}}}, nil)
			job, node := ssn.Jobs["ns/g"], ssn.Nodes["n"]
			ssn.Action = "preempt"
			var uid api.TaskID
			for _, task := range job.TaskStatusIndex[api.Running] {
				uid = task.UID
				if err := ssn.Session.Evict(task.Clone(), "reason"); err != nil {
					t.Fatal(err)
				}
			}
			r.CloseSession(ssn)
			if job.Tasks[uid].Status != c.want || node.Tasks[api.PodKey(job.Tasks[uid].Pod)].Status != c.want {
				t.Errorf("the victim is %s, and %s on its node, want %s", job.Tasks[uid].Status, node.Tasks[api.PodKey(job.Tasks[uid].Pod)].Status, c.want)
			}
		})
	}
}
