// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// TestMessages compares the messages of this package about queues.
func TestMessages(t *testing.T) {
	ssn := bare()
	queue := func(name string, spec scheduling.QueueSpec, state scheduling.QueueState) *api.QueueInfo {
		info := api.NewQueueInfo(&scheduling.Queue{Spec: spec, Status: scheduling.QueueStatus{State: state}})
		info.UID, info.Name = api.QueueID(name), name
		ssn.Queues[info.UID] = info
		return info
	}
	eight := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	closed := queue("closed", scheduling.QueueSpec{}, scheduling.QueueStateClosed)
	capped := queue("capped", scheduling.QueueSpec{Capability: eight}, "")
	deserves := queue("deserves", scheduling.QueueSpec{Deserved: eight}, "")
	ssn.TotalResource = &api.Resource{MilliCPU: 64_000}
	ssn.QueueUse.count()
	ssn.QueueUse.add("capped", &api.Resource{MilliCPU: 4000})
	ssn.QueueUse.add("deserves", &api.Resource{MilliCPU: 4000})
	refused := func() bool { return true }
	asks := &api.Resource{MilliCPU: 5000}
	notOpenText, _ := ssn.QueueUse.notOpen(closed)
	counted := bare()
	counted.Tiers = []conf.Tier{{Plugins: []conf.PluginOption{{Name: "gang"}}}, {Plugins: []conf.PluginOption{{Name: "proportion"}}}}
	noState, _ := counted.QueueUse.notOpen(capped)
	if reason, is := ssn.QueueUse.notOpen(capped); is {
		t.Errorf("without plugins that require the state, a queue without a state is not open: %v", reason)
	}

	got := map[string]string{
		"the queue is closed":                notOpenText.Reason + ": " + notOpenText.Message,
		"the queue has no state":             noState.Reason + ": " + noState.Message,
		"the queue is at its capability":     ssn.QueueUse.PendingReason(capped, asks, refused).Message,
		"the queue has no room in its share": ssn.QueueUse.PendingReason(deserves, asks, refused).Message,
		"a reservation exceeds the share":    fmt.Sprint(ssn.QueueUse.FitsShare(deserves, asks)),
	}
	want := map[string]string{
		"the queue is closed":                "QueueNotOpen: queue closed is Closed and accepts no pods; have it opened, or use another queue",
		"the queue has no state":             "QueueNotOpen: queue capped has no state yet, and plugin proportion accepts no pods until it is Open; if this lasts, check that Volcano's controller manager runs, which sets the state",
		"the queue is at its capability":     "queue capped has reached its capability: cpu 4 of 8 in use, 5 requested",
		"the queue has no room in its share": "queue deserves has no room in its share of the cluster for cpu 5: the queue uses cpu 4, the cluster has cpu 64, spec.deserved is cpu 8",
		"a reservation exceeds the share":    "queue deserves would use cpu 9, its share is 8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfReservations compares the errors of pods whose reservation fails because earlier reservations are not
// released yet.
func TestMessagesOfReservations(t *testing.T) {
	got := map[string]string{}
	_, registry, _, ssn := reserving(t, &reserver{}, &reserver{refuses: "p1"}, nil)
	defer registry.CloseSession(ssn)
	reserve := func(pod string) error { return ssn.reservers.reserve(taskNamed(ssn, pod), ssn.Nodes["n"]) }
	if err := reserve("p0"); err != nil {
		t.Fatal(err)
	}
	got["reserved twice"] = fmt.Sprint(reserve("p0"))
	got["refused by a plugin"] = fmt.Sprint(reserve("p1"))
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		claim := claimNamed("ns", "c")
		err := u.Recover(func(pass *RecoveryPass) error {
			pass.Visit(t.Context(), Leftover{Claim: claim, Volume: "v"}, func(context.Context, sets.Set[string]) error { return errors.New("refused") })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got["a volume that is not recovered yet"] = fmt.Sprint(u.Check(claim))
		u.newPass(0, 0).Visit(t.Context(), Leftover{Claim: claimNamed("ns", "d"), Volume: "v"}, nil)
		got["a volume for which time ran out"] = fmt.Sprint(u.Check(claimNamed("ns", "d")))
	})
	want := map[string]string{
		"reserved twice":                     "resources reserved for pod ns/p0 are not released yet",
		"refused by a plugin":                "plugin b: reserving for pod ns/p1 on node n: there is none left",
		"a volume that is not recovered yet": `the reservation of volume "v" by a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: refused`,
		"a volume for which time ran out":    `the reservation of volume "v" by a former scheduler leader is not withdrawn yet: time ran out at the start of this leader; the scheduler retries it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
