// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// TestANodeIsReadAgainAfterItHasChanged checks that a node is not read again for each task, but after each change. A
// copy that a simulation uses is read each time, because it may change without an event.
func TestANodeIsReadAgainAfterItHasChanged(t *testing.T) {
	own := api.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	copied := own.Clone()
	s := &session{
		common: &common{ledgers: newLedgers()}, fresh: map[string]bool{}, placed: map[api.TaskID]*placement{},
		ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{"n1": own}}},
	}
	first, second := &inventory{unused: &allocator.State{}}, &inventory{unused: &allocator.State{}}
	event := &vcframework.Event{Task: &api.TaskInfo{TransactionContext: api.TransactionContext{NodeName: "n1"}}}
	steps := []struct {
		name      string
		change    func()
		node      *api.NodeInfo
		inventory *inventory
		want      int
	}{
		{name: "at first", node: own, inventory: first, want: 1},
		{name: "unchanged", node: own, inventory: first, want: 1},
		{name: "after an event", change: func() { s.changed(event) }, node: own, inventory: first, want: 2},
		{name: "a copy", node: copied, inventory: first, want: 3},
		{name: "the copy again", node: copied, inventory: first, want: 4},
		{name: "after the copy", node: own, inventory: first, want: 5},
		{name: "then unchanged", node: own, inventory: first, want: 5},
		{name: "with other devices", node: own, inventory: second, want: 1},
	}
	for _, step := range steps {
		if step.change != nil {
			step.change()
		}
		if got := s.ledgerOf(step.node, step.inventory).looks; got != step.want {
			t.Errorf("%s: the node was read %d times, want %d", step.name, got, step.want)
		}
	}
}
