// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAGangRunsBesideItsVictimsWithinTheQueue checks that a gang runs beside its victim only if the queue has room for
// both. The victim is a pod of the same queue that takes minutes to terminate. Its node is cordoned, and another node
// has room for the gang.
func TestAGangRunsBesideItsVictimsWithinTheQueue(t *testing.T) {
	for _, plugin := range []string{"capacity", "proportion", "podlimit"} {
		for capability, want := range map[string]bool{"64": false, "127": false, "128": true} {
			t.Run(fmt.Sprint(plugin, " ", capability), func(t *testing.T) {
				withHarness(t, func(t *testing.T, w *harness) {
					s := preempting(w, "capacity", "64")
					limits := []string{"priority", "gang", "predicates", plugin}
					if plugin == "podlimit" {
						s.registry.RegisterPlugin(framework.PluginSpec{Name: plugin, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
							return podLimit(map[string]int{"64": 1, "127": 1, "128": 2}[capability]), nil
						})})
					}
					s.preempts(limits)
					pods := []string{"victim-0", "g-0"}
					w.submits("victim", "q", "64", 0, "n00")
					s.settle(year, pods...)
					w.submits("g", "q", "64", 1, "n00")
					s.settle(year, pods...)
					if w.cluster.Pod("victim-0").DeletionTimestamp == nil {
						t.Fatal("the pod is not evicted")
					}
					queue := schedtest.MakeQueue().Name("q")
					if plugin != "podlimit" {
						queue.Capability(schedtest.Resources{"cpu": capability})
					}
					w.add(queue.Obj())
					cordoned := nodeOf8(0).Label(v1.LabelHostname, "n00").Obj()
					cordoned.Spec.Unschedulable = true
					w.add(cordoned, nodeOf8(1).Label(v1.LabelHostname, "n00").Obj()) // The gang has to run on another node.
					s.settle(year, pods...)
					if got := nodeOfPod(w.cluster, "g-0") != ""; got != want {
						t.Errorf("the gang runs beside its victim: %t, want %t: %s", got, want, s.says())
					}
					w.remove(w.cluster.Pod("victim-0"))
					s.settle(year, pods...)
					if nodeOfPod(w.cluster, "g-0") == "" {
						t.Error("the gang waits although its victim has ended")
					}
				})
			})
		}
	}
}

// TestASmallMemberTakesNoRoomOfALargeVictim checks that a small member does not free a large victim's share of the
// queue. A pod of 1 CPU evicts a pod that fills the queue, and holds its node. Another pod of its gang would fill the
// rest of the queue on another node, while the victim takes minutes to terminate.
func TestASmallMemberTakesNoRoomOfALargeVictim(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		s := preempting(w, "capacity", "64")
		pods := []string{"victim-0", "g-0", "g-1"}
		w.submits("victim", "q", "64", 0, "n00")
		s.settle(year, pods...)
		w.submits("g", "q", "1", 1, "n00")
		s.settle(year, pods...)
		w.add(schedtest.MakePod().Name("g-1").Group("g").Priority(1).Req(schedtest.Resources{"cpu": "63"}).NodeSelector(v1.LabelHostname, "n02").Obj())
		s.settle(year, pods...)
		if w.cluster.Pod("victim-0").DeletionTimestamp == nil || nodeOfPod(w.cluster, "g-1") != "" {
			t.Errorf("the victim is evicted: %t, and the gang's pod of 63 cpu has node %q, want that it waits", w.cluster.Pod("victim-0").DeletionTimestamp != nil, nodeOfPod(w.cluster, "g-1"))
		}
		w.remove(w.cluster.Pod("victim-0"))
		s.settle(year, pods...)
		if nodeOfPod(w.cluster, "g-0") == "" || nodeOfPod(w.cluster, "g-1") == "" {
			t.Errorf("the gang's pods have nodes %q and %q, want that both run", nodeOfPod(w.cluster, "g-0"), nodeOfPod(w.cluster, "g-1"))
		}
	})
}
