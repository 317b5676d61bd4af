// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAGangOfAParentQueueStopsNoOthers checks that a gang of a parent queue stops no others. Upstream's webhooks
// exclude only Volcano Jobs from queues with children. A tenant's PodGroup in such a queue used to make plugin
// capacity refuse all gangs of the cluster.
func TestAGangOfAParentQueueStopsNoOthers(t *testing.T) {
	one := schedtest.Resources{"cpu": "1"}
	under := func(name, parent string) *v1beta1.Queue {
		queue := schedtest.MakeQueue().Name(name).Obj()
		queue.Spec.Parent = parent
		return queue
	}
	tests := map[string]struct {
		conf string
		evil []runtime.Object
		runs bool
		// field is where the message says that the queue is set; empty means spec.queue.
		field string
	}{
		"in the root": {conf: "enableHierarchy: true", evil: []runtime.Object{
			schedtest.MakePodGroup().Name("evil").Queue("root").Obj(), schedtest.MakePod().Name("evil").Group("evil").Req(one).Obj(),
		}},
		"in a queue with children": {conf: "enableHierarchy: true", evil: []runtime.Object{
			schedtest.MakePodGroup().Name("evil").Queue("dept").Obj(), schedtest.MakePod().Name("evil").Group("evil").Req(one).Obj(),
		}},
		"in a queue with children that an annotation names": {conf: "enableHierarchy: true", evil: []runtime.Object{
			schedtest.MakePodGroup().Name("evil").Queue("dept").Annotation(gangs.SourceAnnotation, "annotations").Obj(), schedtest.MakePod().Name("evil").Group("evil").Req(one).Obj(),
		}, field: "the annotation scheduling.volcano.sh/queue-name"},
		"that holds a node": {conf: "enableHierarchy: true", evil: []runtime.Object{
			schedtest.MakePodGroup().Name("evil").Queue("dept").Obj(), schedtest.MakePod().Name("evil").Group("evil").Req(one).Node("n").Phase(v1.PodRunning).Obj(),
		}, runs: true},
		"without a PodGroup, by what its pod says": {conf: "enableHierarchy: true", evil: []runtime.Object{
			schedtest.MakePod().Name("evil").Group("evil").Req(one).Node("n").Phase(v1.PodRunning).Annotation("binding.volcano-prebind.io/queue", "dept").Obj(),
		}, runs: true},
		"where queues are not in one another": {conf: "enableHierarchy: false", evil: []runtime.Object{
			schedtest.MakePodGroup().Name("evil").Queue("dept").Obj(), schedtest.MakePod().Name("evil").Group("evil").Req(one).Obj(),
		}, runs: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(append(tt.evil, schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				under("dept", "root"), under("team", "dept"), schedtest.MakeNode().Name("n").Obj(),
				schedtest.MakePodGroup().Name("good").Queue("team").MinResources(one).Obj(), schedtest.MakePod().Name("good").Group("good").Req(one).Obj())...)
			s := newTestScheduler(t, cluster, loaded(t, strings.Replace(confWith("capacity"), "name: capacity", "name: capacity, "+tt.conf, 1)))
			eventually(t, func() bool { s.cycle(); return cluster.Pod("good").Spec.NodeName != "" })
			eventually(t, func() bool {
				s.cycle()
				if tt.runs {
					return cluster.Pod("evil").Spec.NodeName != ""
				}
				group := cluster.PodGroup("evil")
				want := fmt.Sprintf("queue %q has child queues, and gangs must be in a queue without; set %s to one of its children", group.Spec.Queue, cmp.Or(tt.field, "spec.queue"))
				return len(group.Status.Conditions) > 0 && group.Status.Conditions[0].Message == want
			})
		})
	}
}

// TestAGangThatMovesToAParentQueueCountsWhereItWasBound checks that a gang that moves to a parent queue counts
// against the queue in which it was bound. A tenant may write another queue into the PodGroup of a running gang.
func TestAGangThatMovesToAParentQueueCountsWhereItWasBound(t *testing.T) {
	one, two := schedtest.Resources{"cpu": "1"}, schedtest.Resources{"cpu": "2"}
	for bound, want := range map[string]bool{"team": false, "": true} {
		t.Run("bound in "+bound, func(t *testing.T) {
			team := limitedQueue("team", quantities("cpu", "2"))
			team.Spec.Parent = "dept"
			dept := schedtest.MakeQueue().Name("dept").Obj()
			dept.Spec.Parent = "root"
			runs := schedtest.MakePod().Name("runs").Group("runs").Req(two).Node("n").Phase(v1.PodRunning).Obj()
			if bound != "" {
				runs.Annotations["binding.volcano-prebind.io/queue"] = bound
			}
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), dept, team,
				schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("runs").Queue("root").Obj(), runs)
			for gang, queue := range map[string]string{"more": "team", "other": schedtest.Queue} {
				cluster.Put(schedtest.MakePodGroup().Name(gang).Queue(queue).Obj())
				cluster.Put(schedtest.MakePod().Name(gang).Group(gang).Req(one).Obj())
			}
			s := newTestScheduler(t, cluster, loaded(t, strings.Replace(confWith("capacity"), "name: capacity", "name: capacity, enableHierarchy: true", 1)))
			eventually(t, func() bool { s.cycle(); return cluster.Pod("other").Spec.NodeName != "" })
			for range 3 {
				s.cycle()
			}
			if !want {
				if node := cluster.Pod("more").Spec.NodeName; node != "" {
					t.Errorf("a pod beyond the queue's capability is on %s", node)
				}
				return
			}
			eventually(t, func() bool { s.cycle(); return cluster.Pod("more").Spec.NodeName != "" })
		})
	}
}
