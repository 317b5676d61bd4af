// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"

	. "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestWhoIsLetIn: of two clusters of 8 cpu and one of 4, beside a node in none.
func TestWhoIsLetIn(t *testing.T) {
	fabric := nodes("a1 ib-a s1", "a2 ib-a s2", "b1 ib-b", "b2 ib-b", "c1 ib-c", "x")
	tests := map[string]struct {
		gang *PodGroupBuilder
		// let says that it is let in, told what its PodGroup is told if it is not.
		let  bool
		told string
	}{
		"what a cluster has": {gang("g", 8, "mode=required").MinResources(Resources{"cpu": "8"}), true, ""},
		"more than any has": {gang("g", 9, "mode=required").MinResources(Resources{"cpu": "9"}), false,
			"the gang must lie in one node group, and the largest of 3 has less than its minResources, even when idle: ib-a has cpu 8 of 9"},
		"more than the listed one has": {gang("g", 8, "mode=required", "clusters=ib-c").MinResources(Resources{"cpu": "8", "rdma/hca": "9"}), false,
			"the gang must lie in one node group, and the largest of 1 has less than its minResources, even when idle: ib-c has cpu 4 of 8, rdma/hca 8 of 9"},
		"more than a narrower group has": {gang("g", 5, "mode=required", "level=spine").MinResources(Resources{"cpu": "5"}), false,
			"the gang must lie in one node group, and the largest of 2 has less than its minResources, even when idle: ib-a/s1 has cpu 4 of 5"},
		"more, for a gang that only prefers":  {gang("g", 9, "mode=preferred").MinResources(Resources{"cpu": "9"}), true, ""},
		"more, for a gang without a wish":     {gang("g", 9).MinResources(Resources{"cpu": "9"}), true, ""},
		"what is no node's, but a quota's":    {gang("g", 8, "mode=required").MinResources(Resources{"cpu": "8", "limits.cpu": "800"}), true, ""},
		"no cluster that is listed is there":  {gang("g", 9, "mode=required", "clusters=ib-z").MinResources(Resources{"cpu": "9"}), true, ""},
		"a gang that does not say how much":   {gang("g", 99, "mode=required"), true, ""},
		"annotations that cannot be read yet": {gang("g", 9, "mode=perhaps").MinResources(Resources{"cpu": "9"}), true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.World{Nodes: fabric, PodGroups: []*v1beta1.PodGroup{tt.gang.Phase(v1beta1.PodGroupPending).Obj()}}, "levels: [ibcluster, spine, leaf]")
			f.Run(enqueue.New())
			if let := f.job("g").PodGroup.Status.Phase == scheduling.PodGroupInqueue; let != tt.let {
				t.Errorf("let in: %t, want %t", let, tt.let)
			}
			f.Session.Close()
			wait, _ := f.Session.Wait("ns/g")
			if tt.told != "" && wait.Message != tt.told || tt.told == "" && strings.Contains(wait.Message, "one node group") {
				t.Errorf("told %q, want %q", wait.Message, tt.told)
			}
		})
	}
}

// TestAGangThatNoClusterHoldsLeavesRoomForOthers: what it asks for is not promised to it.
func TestAGangThatNoClusterHoldsLeavesRoomForOthers(t *testing.T) {
	w := sessiontest.World{Nodes: two()}
	for i, size := range []int32{16, 8} {
		name := fmt.Sprintf("g%d", i)
		w.PodGroups = append(w.PodGroups, gang(name, size, "mode=required").MinResources(Resources{"cpu": fmt.Sprint(size)}).Phase(v1beta1.PodGroupPending).Obj())
	}
	f := open(t, w)
	f.conf = strings.Replace(f.conf, "  - name: conformance\n", "  - name: conformance\n- plugins:\n  - name: overcommit\n    arguments:\n      overcommit-factor: 1\n", 1)
	f.conf = strings.Replace(f.conf, "  - name: ibcluster\n", "", 1)
	f.conf = strings.Replace(f.conf, "  - name: priority\n", "  - name: priority\n  - name: ibcluster\n", 1)
	f.reopen(t, nil)
	f.Run(enqueue.New())
	for name, want := range map[string]scheduling.PodGroupPhase{"g0": scheduling.PodGroupPending, "g1": scheduling.PodGroupInqueue} {
		if got := f.job(name).PodGroup.Status.Phase; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
