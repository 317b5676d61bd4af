// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestMessages compares the NotEnoughResources messages that users read on gangs that were tried and not placed.
func TestMessages(t *testing.T) {
	type (
		group  = framework.NodeGroupExplanation
		groups = []group
		counts = map[string]int
	)
	anywhere := func(needed int, g group) string {
		return shortMessage(framework.GangExplanation{Needed: needed, Groups: groups{g}}, 0)
	}
	required := func(needed int, all ...group) string {
		return shortMessage(framework.GangExplanation{Needed: needed, Required: true, Groups: all}, 0)
	}
	full := counts{"short of nvidia.com/gpu": 3, "cordoned": 2, `tainted "maintenance"`: 1}
	got := map[string]string{
		"only idle resources count":         paused(&state.Attempt{IdleOnlyUntil: time.Date(2026, 3, 1, 14, 5, 0, 0, time.UTC)}),
		"anywhere":                          anywhere(10, group{Fits: 6, Nodes: 12, Reasons: full, Filled: 6, FilledOf: []string{"nvidia.com/gpu"}}),
		"anywhere, many reasons":            anywhere(2, group{Nodes: 9, Reasons: counts{"short of cpu": 4, "cordoned": 2, "not ready": 2, "unreachable": 1}}),
		"anywhere, at most":                 anywhere(8, group{Fits: 5, AtMost: true, Nodes: 1, Reasons: counts{"short of cpu": 1}}),
		"anywhere, only its own members":    anywhere(45, group{Fits: 40, Nodes: 5, Filled: 5, FilledOf: []string{"cpu", "nvidia.com/gpu"}}),
		"anywhere, no placement found":      anywhere(4, group{Fits: 4, Nodes: 2, Reasons: counts{"short of cpu": 2}}),
		"anywhere, no placement of one":     anywhere(1, group{Fits: 1, Nodes: 1, Reasons: counts{"short of cpu": 1}}),
		"the queue stops it":                anywhere(2, group{Fits: 1, Nodes: 1, Stopped: "queue default has reached its capability: cpu 4 of 4 in use, 1 requested", Queue: framework.QueueFull}),
		"the queue stops the first":         anywhere(2, group{Nodes: 1, Stopped: "queue default is Closed and accepts no pods", Queue: framework.QueueNotOpen}),
		"no node":                           anywhere(2, group{}),
		"node groups":                       required(16, group{Group: "ib-a", Fits: 12, Nodes: 16, Reasons: full, Filled: 10, FilledOf: []string{"nvidia.com/gpu"}}, group{Group: "ib-b", Nodes: 2, Reasons: counts{"cordoned": 2}}),
		"node groups, no placement found":   required(16, group{Group: "ib-a", Fits: 16, Nodes: 16, Reasons: counts{"short of cpu": 4}}),
		"node groups, one is not allowed":   required(1, group{Group: "ib-a", Nodes: 1, Reasons: counts{"short of cpu": 1}}, group{Group: "ib-b", Refused: "not listed in annotation ibcluster.volcano-prebind.io/clusters"}),
		"no node group is allowed":          required(4),
		"a HyperNode":                       shortMessage(framework.GangExplanation{Needed: 4, Groups: groups{{Group: "rack-1", Nodes: 4, Stopped: "In hyperNode rack-1: too few nodes."}}}, 0),
		"the minimum is placed, one waits":  shortMessage(framework.GangExplanation{Needed: 1, Groups: groups{{Nodes: 1, Reasons: counts{"short of cpu": 1}}}}, 1),
		"the minimum is placed, three wait": shortMessage(framework.GangExplanation{Needed: 1, Groups: groups{{Nodes: 2, Reasons: counts{"short of cpu": 2}}}}, 3),
	}
	want := map[string]string{
		"only idle resources count":         "; until 14:05:00 UTC the gang is placed on idle resources only: gangs of its namespace or group held idle resources for 5 minutes while they waited for pods to terminate",
		"anywhere":                          `6/10 members fit: 3 nodes short of nvidia.com/gpu, 2 cordoned, 1 tainted "maintenance", 6 filled by its members (nvidia.com/gpu)`,
		"anywhere, many reasons":            "0/2 members fit: 4 nodes short of cpu, 2 cordoned, 2 not ready, ...",
		"anywhere, at most":                 "at most 5/8 members fit: 1 node short of cpu",
		"anywhere, only its own members":    "40/45 members fit: 5 nodes filled by its members (cpu, nvidia.com/gpu)",
		"anywhere, no placement found":      "no room for the 4 members together: 2 nodes short of cpu",
		"anywhere, no placement of one":     "no room: 1 node short of cpu",
		"the queue stops it":                "1/2 members fit: queue default has reached its capability: cpu 4 of 4 in use, 1 requested",
		"the queue stops the first":         "queue default is Closed and accepts no pods",
		"no node":                           "0/2 members fit: no nodes",
		"node groups":                       `no node group holds the 16 members needed: ib-a 12/16: 3 nodes short of nvidia.com/gpu, 2 cordoned, 1 tainted "maintenance", 10 filled by its members (nvidia.com/gpu); ib-b 0/16: 2 nodes cordoned`,
		"node groups, no placement found":   "no node group holds the 16 members needed: ib-a no room for the 16 members together: 4 nodes short of cpu",
		"node groups, one is not allowed":   "no node group holds the 1 member needed: ib-a 0/1: 1 node short of cpu; ib-b: not listed in annotation ibcluster.volcano-prebind.io/clusters",
		"no node group is allowed":          "no node group holds the 4 members needed: no node group is allowed for the gang",
		"a HyperNode":                       "rack-1 0/4: too few nodes",
		"the minimum is placed, one waits":  "the minimum is placed, 1 further member waits: 1 node short of cpu",
		"the minimum is placed, three wait": "the minimum is placed, 3 further members wait: 2 nodes short of cpu",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
