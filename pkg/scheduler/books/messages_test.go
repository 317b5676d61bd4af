// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMessages compares the errors of reservations and evictions that the books refuse. The ledger adds the pod and
// the node in front of them.
func TestMessages(t *testing.T) {
	pod := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Name("p").Group("g").Req(schedtest.Resources{"cpu": "4", "memory": "1Gi"})
	}
	owned := func(*api.TaskInfo) (Reservation, error) { return Reservation{Owner: t, NUMA: &api.TopologyInfo{}}, nil }
	// booksOf returns books with the pod, and with a node that has room for it.
	booksOf := func(shown *v1.Pod) (*Books, *api.TaskInfo) {
		b := newBooks(t)
		b.Nodes.Show(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "pods": "10"}).Obj())
		b.Pods.Show(shown)
		return b, api.NewTaskInfo(shown)
	}
	reserve := func(shown *v1.Pod, node string, change func(*Books, *api.TaskInfo)) string {
		b, wanted := booksOf(shown)
		change(b, wanted)
		return fmt.Sprint(b.Pods.Reserve(wanted, node, owned))
	}
	nothing := func(*Books, *api.TaskInfo) {}
	evict := func(shown *v1.Pod, change func(*api.TaskInfo)) string {
		b, task := booksOf(shown)
		change(task)
		_, _, err := b.Pods.Evict(task)
		return fmt.Sprint(err)
	}
	recreated := pod().Obj()
	recreated.UID = "another"
	got := map[string]string{
		"a pod with room":             reserve(pod().Obj(), "n", nothing),
		"the node does not exist":     reserve(pod().Obj(), "elsewhere", nothing),
		"the PodGroup does not exist": reserve(pod().Obj(), "n", func(_ *Books, wanted *api.TaskInfo) { wanted.Job = "ns/other" }),
		"the pod does not exist":      reserve(pod().Obj(), "n", func(_ *Books, wanted *api.TaskInfo) { wanted.UID = "another" }),
		"the pod is reserved already": reserve(pod().Obj(), "n", func(b *Books, wanted *api.TaskInfo) {
			if err := b.Pods.Reserve(wanted, "n", owned); err != nil {
				t.Error(err)
			}
		}),
		"a pod of its name is reserved": reserve(pod().Obj(), "n", func(b *Books, wanted *api.TaskInfo) {
			if err := b.Pods.Reserve(wanted, "n", owned); err != nil {
				t.Error(err)
			}
			b.Pods.Show(recreated)
			wanted.UID = api.TaskID(recreated.UID)
		}),
		"the node has no room": reserve(pod().Obj(), "n", func(b *Books, _ *api.TaskInfo) {
			b.Pods.Show(schedtest.MakePod().Name("big").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "6"}).Obj())
		}),
		"the node has neither CPU nor memory": reserve(pod().Obj(), "n", func(b *Books, _ *api.TaskInfo) {
			b.Pods.Show(schedtest.MakePod().Name("big").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "7500m", "memory": "7680Mi"}).Obj())
		}),
		"evicting a pod that does not exist": evict(pod().Obj(), func(task *api.TaskInfo) { task.UID = "another" }),
		"evicting a pod without a node":      evict(pod().Obj(), func(*api.TaskInfo) {}),
	}
	want := map[string]string{
		"a pod with room":                     "<nil>",
		"the node does not exist":             "node elsewhere was deleted after the pod was placed there",
		"the PodGroup does not exist":         "PodGroup ns/other was deleted after its pod was placed",
		"the pod does not exist":              "the pod was deleted after it was placed",
		"the pod is reserved already":         "task is Binding, not Pending",
		"a pod of its name is reserved":       "the transaction of a pod of that name, with UID ns-p, on node n has not ended",
		"the node has no room":                "node n is short of cpu (4 requested, 2 idle)",
		"the node has neither CPU nor memory": "node n is short of cpu (4 requested, 500m idle), memory (1Gi requested, 512Mi idle)",
		"evicting a pod that does not exist":  "pod ns/p with UID another does not exist",
		"evicting a pod without a node":       "pod ns/p is on no node",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
