// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhyNoPodsAreEvictedForAGang has the reason of each wait, in the actions to which it applies.
func TestWhyNoPodsAreEvictedForAGang(t *testing.T) {
	waits := func(reason, message string) *api.ValidateResult {
		return &api.ValidateResult{Reason: reason, Message: message}
	}
	evicted := waits("WaitingAfterEviction", "why")
	for name, tt := range map[string]struct {
		wait func(p *plugin)
		want map[string]*api.ValidateResult
	}{
		"nothing": {wait: func(*plugin) {}},
		"it has evicted": {
			func(p *plugin) { p.gangs.Failed("ns/gang", "why") },
			map[string]*api.ValidateResult{preempt: evicted, reclaim: evicted, upstreamsPreempt: evicted, upstreamsReclaim: evicted},
		},
		"its queue lends": {
			func(p *plugin) { p.queues.Failed(schedtest.Queue, "why") },
			map[string]*api.ValidateResult{reclaim: evicted, upstreamsReclaim: evicted},
		},
		"its turn comes later": {
			func(p *plugin) {
				setIn(p.turns.searched, round{upstreamsPreempt, schedtest.Namespace}, "ns/gang", true)
			},
			map[string]*api.ValidateResult{upstreamsPreempt: waits(waitsForTurn,
				"the search budget of this cycle for pods to evict is exhausted by other gangs of the namespace; retrying in a later cycle")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRepeatedEvictions(t, evicting(map[string]string{"n1": "2"}, []runs{{"n1", "a", 10, "2"}}, 100, []wants{{"", "2"}}), victimTiers)
			synctest.Test(t, func(t *testing.T) {
				ssn := s.cluster.Open(s.registry, s.conf)
				defer ssn.Close()
				tt.wait(s.plugin)
				for _, action := range []string{preempt, reclaim, upstreamsPreempt, upstreamsReclaim, "allocate"} {
					ssn.Action = action
					if diff := cmp.Diff(tt.want[action], ssn.JobValid(ssn.Jobs["ns/gang"])); diff != "" {
						t.Errorf("%s: the verdict (-want +got):\n%s", action, diff)
					}
				}
			})
		})
	}
}

// TestWhyGangsWaitAfterEvictions has the texts of the waits that begin after evictions.
func TestWhyGangsWaitAfterEvictions(t *testing.T) {
	p := newPlugin()
	p.noted, p.taken = map[api.JobID]bool{}, map[api.QueueID]bool{}
	lends, wants := jobOf("ns", "lends", api.Releasing), jobOf("ns", "wants", api.Pipelined)
	ssn := bare(reclaim, lends, wants)
	ssn.Nodes["n"] = api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj())
	for _, task := range wants.Tasks {
		task.EvictionOccurred = true
		ssn.Nodes["n"].Tasks[task.UID] = task.Clone()
	}
	p.recordEviction(ssn, framework.Eviction{Action: reclaim, Task: lends.Tasks["lends0"]})
	got := map[string]string{}
	got["the queue that lends"], _, _ = p.queues.Blocked("q-lends")
	got["the gang that evicts"], _, _ = p.gangs.Blocked(wants.UID)
	want := map[string]string{
		"the queue that lends": "reclaim has just evicted pods of queue q-lends for another queue",
		"the gang that evicts": "pods were evicted for the gang, and it is not placed yet",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
