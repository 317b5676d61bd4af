// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhyNoPodsAreEvictedForAGang: each wait has its reason, in the actions that it is for.
func TestWhyNoPodsAreEvictedForAGang(t *testing.T) {
	waits := func(reason, message string) *api.ValidateResult {
		return &api.ValidateResult{Reason: reason, Message: message}
	}
	for name, tt := range map[string]struct {
		wait             func(p *plugin)
		preempt, reclaim *api.ValidateResult
	}{
		"nothing":         {wait: func(*plugin) {}},
		"it has evicted":  {func(p *plugin) { p.gangs.Failed("ns/gang", "why") }, waits("WaitingAfterEviction", "why"), waits("WaitingAfterEviction", "why")},
		"its queue lends": {func(p *plugin) { p.queues.Failed(schedtest.Queue, "why") }, nil, waits("WaitingAfterEviction", "why")},
		"its turn comes later": {func(p *plugin) {
			setIn(p.turns.searched, round{preempt, schedtest.Namespace}, "ns/gang", true)
		}, waits(waitsForTurn, errWaitsForTurn.Error()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := brew(t, evicting(map[string]string{"n1": "2"}, []runs{{"n1", "a", 10, "2"}}, 100, []wants{{"", "2"}}), victimTiers)
			synctest.Test(t, func(t *testing.T) {
				ssn := s.cluster.Open(s.registry, s.conf)
				defer ssn.Close()
				tt.wait(s.plugin)
				for action, want := range map[string]*api.ValidateResult{preempt: tt.preempt, reclaim: tt.reclaim, "allocate": nil} {
					ssn.Action = action
					if diff := cmp.Diff(want, ssn.JobValid(ssn.Jobs["ns/gang"])); diff != "" {
						t.Errorf("%s: the verdict (-want +got):\n%s", action, diff)
					}
				}
			})
		})
	}
}
