// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

type evicted func(Eviction)

func (fn evicted) Evicted(e Eviction) { fn(e) }

func (evicted) Nominees(*api.JobInfo) map[api.TaskID]bool { return nil }
func (evicted) Leaving(*api.TaskInfo) []*api.TaskInfo     { return nil }

// TestEvictionsThatAreSentTogether checks that plugins are notified of all evictions that are useless without each other,
// or, if the cache returns an error, of none.
func TestEvictionsThatAreSentTogether(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		sent []string
	}{"they are sent": {nil, []string{"p0 by preempt for g", "p1 by preempt for g"}}, "they are refused": {errors.New("no"), nil}} {
		t.Run(name, func(t *testing.T) {
			r, k := NewRegistry(), newRecordingCache(t)
			ssn := open(t, r, k, ProfileInput{})
			defer r.CloseSession(ssn)
			var told, listed []string
			ssn.Placements.add("p", evicted(func(e Eviction) { told = append(told, e.Task.Name+" by "+e.Action+" for "+e.For.Name) }), nil)
			job, tasks := ssn.Jobs["ns/g"], map[string]*api.TaskInfo{}
			for _, task := range job.Tasks {
				tasks[task.Name] = task
			}
			k.evictErr = c.err
			err := ssn.EvictTogether([]Eviction{{Task: tasks["p0"], Action: "preempt", For: job}, {Task: tasks["p1"], Action: "preempt", For: job}})
			if !errors.Is(err, c.err) {
				t.Errorf("EvictTogether returned %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.sent, told); diff != "" {
				t.Errorf("evictions that a plugin is notified of (-want +got):\n%s", diff)
			}
			for _, task := range ssn.Evicted() {
				listed = append(listed, task.Name+" by preempt for g")
			}
			if diff := cmp.Diff(c.sent, listed); diff != "" {
				t.Errorf("evicted tasks of the session (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnUndoneEvictionLeavesThePodAsItWas checks the status of a pod, in its job and on its node, whose eviction in the
// session was undone. Upstream's statement takes each such pod for a running one.
func TestAnUndoneEvictionLeavesThePodAsItWas(t *testing.T) {
	for phase, want := range map[v1.PodPhase]api.TaskStatus{v1.PodRunning: api.Running, v1.PodPending: api.Bound} {
		t.Run(string(phase), func(t *testing.T) {
			r, k := NewRegistry(), newRecordingCache(t)
			k.AddPod(schedtest.MakePod().Name("victim").Group("g").Node("n").Phase(phase).Obj())
			ssn := open(t, r, k, ProfileInput{})
			defer r.CloseSession(ssn)
			job := ssn.Jobs["ns/g"]
			var victim *api.TaskInfo
			for _, task := range job.TaskStatusIndex[want] {
				victim = task
			}
			statement := vcframework.NewStatement(ssn.Session)
			if err := statement.Evict(victim, "reason"); err != nil {
				t.Fatal(err)
			}
			statement.Discard()
			Unevict(ssn.Session, victim)
			got := []api.TaskStatus{job.Tasks[victim.UID].Status, ssn.Nodes["n"].Tasks[api.PodKey(victim.Pod)].Status}
			if diff := cmp.Diff([]api.TaskStatus{want, want}, got); diff != "" {
				t.Errorf("status of the pod in its job and on its node (-want +got):\n%s", diff)
			}
			if len(ssn.Evicted()) > 0 {
				t.Errorf("evicted tasks of the session: %v", ssn.Evicted())
			}
		})
	}
}
