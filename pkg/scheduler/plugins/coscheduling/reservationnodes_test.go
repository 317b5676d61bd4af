// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestANodeThatTakesNoMemberIsNotReserved: a DaemonSet's pod stays on the emptiest node when it is drained, so that no
// member fits. Another pod of that node is not affected by the trial.
func TestANodeThatTakesNoMemberIsNotReserved(t *testing.T) {
	in(t, nodes(5, "4"), after5m(50), func(t *testing.T, w *simulation) {
		yes := true
		w.stays("agent", schedtest.Queue, "n4", "2")
		w.update("agent", func(pod *v1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: &yes}}
		})
		w.stays("beside", schedtest.Queue, "n4", "1")
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		reserved := ""
		for range 12 {
			time.Sleep(time.Minute)
			w.session(func(ssn *sessiontest.Session) {
				if n := len(ssn.Jobs["ns/beside"].TaskStatusIndex[api.Running]); n != 1 {
					t.Error("the other pod on node n4 does not run after the trial")
				}
			})
			reserved = strings.Join(w.reserved(), " ")
			if reserved != "" {
				break
			}
		}
		if reserved != "n0 n1" {
			t.Errorf("the reserved nodes are %q, want two nodes that take a member each", reserved)
		}
	})
}

// TestANodeBeyondTheLimitDoesNotStopATrial: the emptiest node alone exceeds reservedPercent. Smaller nodes are reserved
// instead.
func TestANodeBeyondTheLimitDoesNotStopATrial(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes = append(given.Nodes, holds("16").Name("large").Obj())
	in(t, given, after5m(40), func(t *testing.T, w *simulation) {
		w.full()
		w.stays("beside", schedtest.Queue, "large", "13")
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		if got := strings.Join(w.reserved(), " "); got != "n0 n1" {
			t.Errorf("the reserved nodes are %q, want n0 n1", got)
		}
	})
}
