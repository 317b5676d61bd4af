// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestASparePodIsReclaimedWhicheverComesFirst checks a gang with one pod beyond its minima: a leader and two workers, of which one
// is spare. Plugin gang allows to evict one pod, the first that it is asked about.
func TestASparePodIsReclaimedWhicheverComesFirst(t *testing.T) {
	for leader := range 3 {
		t.Run(fmt.Sprint("the leader is pod ", leader), func(t *testing.T) {
			w := world(nodesOf(3, "4"), gang{name: "new", queue: "b", min: 1, priority: 1, cpu: "4", pending: 1})
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("old").MinMember(2).Queue("a").PriorityClass("p1").Obj())
			podGroupOf(&w, "old").Spec.MinTaskMember = map[string]int32{"leader": 1, "worker": 1}
			for i := range 3 {
				role := "worker"
				if i == leader {
					role = "leader"
				}
				w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprint("old-", i)).Group("old").Role(role).Priority(1).
					Req(schedtest.Resources{"cpu": "4"}).Node(fmt.Sprint("n", i)).Phase(v1.PodRunning).Obj())
			}
			w.Queues = []*v1beta1.Queue{deserving("a", "8"), deserving("b", "4")}
			c := newClusterOf(w, strings.Replace(reclaimTiers, "    enableReclaimable: false\n", "", 1), NewReclaim(nil))
			defer c.close()
			if got := c.session(); len(got.evicted) != 1 || got.evicted[0] == fmt.Sprint("old-", leader) {
				t.Errorf("evicted %v, want one worker; reasons: %v", got.evicted, got.reasons)
			}
		})
	}
}

// TestAGangBelowItsMinimumIsNotSpared checks that a gang that lacks members already costs no more than pods beyond a minimum.
func TestAGangBelowItsMinimumIsNotSpared(t *testing.T) {
	w := world(nodesOf(2, "4"),
		gang{name: "part", min: 2, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "spare", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	got := run(t, w, "")
	if diff := cmp.Diff([]string{"part-0"}, got.evicted); diff != "" {
		t.Errorf("evicted pods (-want +got):\n%s", diff)
	}
}
