// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAPausedGangEvictsOnlyForRoomThatItGets: one member of the gang waits for a pod that leaves without end, and a pod is evicted for the other. Others
// take the room of that pod in the pause of the gang's namespace, so none is evicted then; but pods are for a gang that waits for no others.
func TestAPausedGangEvictsOnlyForRoomThatItGets(t *testing.T) {
	for _, action := range []string{preempt, reclaim} {
		t.Run(action, func(t *testing.T) {
			w := evicting(map[string]string{"n1": "4", "n2": "4", "n3": "4"}, []runs{{"n1", "beside", 1, "1"}, {"n2", "low", 1, "4"}, {"n3", "aside", 1, "1"}}, 100, []wants{{"n1", "3"}, {"n2", "4"}})
			w.Pods = append(w.Pods, schedtest.MakePod().Name("leaves").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "3"}).Terminating().Obj())
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("late").MinMember(2).PriorityClass("p100").Obj())
			if action == reclaim {
				for _, podGroup := range w.PodGroups {
					podGroup.Spec.Queue = map[bool]string{true: "gives", false: "gets"}[podGroup.Spec.PriorityClassName == "p1"]
				}
				w.Queues = append(w.Queues, schedtest.MakeQueue().Name("gets").Obj(), schedtest.MakeQueue().Name("gives").Obj())
			}
			s := brew(t, w, strings.NewReplacer("preempt, reclaim", action, "  - name: proportion\n", "").Replace(fmt.Sprintf(tiers, Name, true)))
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				play := func(until time.Duration) {
					for time.Since(s.start) < until {
						s.session()
						for _, name := range []string{"ns/gang-0", "ns/gang-1"} {
							s.update(name, func(pod *v1.Pod) { pod.Status.NominatedNodeName = "" }) // as of members that are made again
						}
						time.Sleep(5 * time.Second)
						s.leave()
					}
				}
				play(10 * time.Minute)
				if diff := cmp.Diff([]time.Duration{0}, s.evictions); diff != "" {
					t.Errorf("pods are evicted at (-want +got):\n%s", diff)
				}
				for i, member := range []wants{{"n2", "4"}, {"n3", "4"}} {
					pod := schedtest.MakePod().Name(fmt.Sprintf("late-%d", i)).Group("late").Priority(100).Req(schedtest.Resources{"cpu": member.cpu}).NodeSelector("name", member.node).Obj()
					s.cluster.Cache().AddPod(pod)
					s.pods["ns/"+pod.Name] = pod
				}
				s.evictions = nil
				if play(12 * time.Minute); s.running("late") != 2 {
					t.Errorf("%d members of a gang run that needs only the room of evicted pods, evicted at %v, want 2", s.running("late"), s.evictions)
				}
			})
		})
	}
}
