// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPlacementsOfAPanickedSessionAreUndone checks that placements with claims are undone after a session has panicked,
// except placements of committed pods. They are undone even if a plugin panics again.
func TestPlacementsOfAPanickedSessionAreUndone(t *testing.T) {
	tr, r, k := &trace{}, NewRegistry(), newRecordingCache(t)
	for _, name := range []string{"v0", "v1"} {
		k.AddPod(schedtest.MakePod().Name(name).Group("g").Volume("claim").Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	r.RegisterPlugin(spec("reserves", func(ssn *Session) {
		ssn.AddEventHandler(&vcframework.EventHandler{DeallocateFunc: func(e *vcframework.Event) {
			tr.add("%s off %s", e.Task.Name, e.Task.NodeName)
			panic("oh no")
		}})
	}))
	ssn := open(t, r, k, ProfileInput{Tiers: []conf.Tier{tier("reserves")}})
	commit(t, ssn)
	statement := vcframework.NewStatement(ssn.Session)
	for _, task := range ssn.Jobs["ns/g"].Tasks {
		if HasClaims(task.Pod) {
			place := statement.Allocate
			if task.Name == "v1" { // Victims were evicted for this task.
				place = func(task *api.TaskInfo, node *api.NodeInfo) error { return statement.Pipeline(task, node.Name, true) }
			}
			if err := place(task, ssn.Nodes["n"]); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.UndoPlacements()
	for uid, task := range ssn.Jobs["ns/g"].Tasks {
		if _, _, node := ssn.Jobs["ns/g"].TaskSchedulingReason(uid); task.Name == "v1" && node != "n" {
			t.Errorf("the pod that waits for victims is nominated to node %q, want n", node)
		}
	}
	slices.Sort(tr.list)
	if diff := cmp.Diff([]string{"v0 off n", "v1 off n"}, tr.list); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
}

// TestUndoPlacementsWithoutASession checks that UndoPlacements does nothing if no session is open, because a cycle may
// panic before it opens one.
func TestUndoPlacementsWithoutASession(t *testing.T) {
	r, k := NewRegistry(), newRecordingCache(t)
	r.UndoPlacements()
	r.RegisterPlugin(spec("panics", func(*Session) {}))
	r.CloseSession(open(t, r, k, ProfileInput{Tiers: []conf.Tier{tier("panics")}}))
	r.UndoPlacements()
}
