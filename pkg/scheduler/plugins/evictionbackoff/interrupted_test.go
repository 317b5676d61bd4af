// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestOnlyInterruptedMembersPassAHigherPriority: gang tenant of priority 10 lacks a member and has two pending ones.
// The newer one, tenant-0, has the higher priority of the two. Gang high of priority 1000 is in a queue that comes
// first. Each pending pod needs 4 cpus, and the only node has 8. After a crash, only the interrupted member, tenant-2,
// is bound before pod high-0.
func TestOnlyInterruptedMembersPassAHigherPriority(t *testing.T) {
	for name, tt := range map[string]struct {
		// crash reports whether the leader's first session is the one with the pending members. Otherwise the leader
		// has seen the gang with a running member that was then deleted.
		crash bool
		want  map[string]string
	}{
		"a crash interrupted a bind, and a member came since": {true, map[string]string{"ns/tenant-2": "n1", "ns/high-0": "n1"}},
		"a member was deleted, and created again":             {false, map[string]string{"ns/high-0": "n1", "ns/tenant-0": "n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			member := func(n, cpu string) *schedtest.PodBuilder {
				return schedtest.MakePod().Name("tenant-" + n).Group("tenant").Priority(10).Req(schedtest.Resources{"cpu": cpu})
			}
			runs := func(n, cpu string) *v1.Pod {
				pod := member(n, cpu).Node("n1").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, "2").Obj()
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: schedtest.Created}}
				return pod
			}
			var w sessiontest.ClusterSpec
			w.Nodes = []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "8", "pods": "20"}).Obj()}
			w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("another").Obj()}
			w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p10", 10), schedtest.PriorityClass("p1000", 1000))
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("tenant").MinMember(2).PriorityClass("p10").Phase(v1beta1.PodGroupInqueue).Obj(),
				schedtest.MakePodGroup().Name("high").MinMember(1).Queue("another").PriorityClass("p1000").Phase(v1beta1.PodGroupInqueue).Obj())
			lost := runs("2", "4")
			w.Pods = append(w.Pods, runs("1", "0"), lost)
			cluster := sessiontest.New(w)
			defer cluster.Close()
			registry := framework.NewRegistry()
			registry.RegisterPlugin(Spec())
			registry.RegisterPlugin(transaction.Spec(free{}))
			registry.RegisterAction(allocate.New())
			scheduler := cluster.Scheduler(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: evictionbackoff\n- plugins:\n  - name: transaction\n"+
				"- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n")
			defer scheduler.Close()
			if !tt.crash {
				scheduler.Open().Close()
			}
			cluster.Cache().DeletePod(lost)
			cluster.AddPod(member("2", "4").Obj())
			since := member("0", "4").Priority(20).Obj()
			since.CreationTimestamp.Time = schedtest.Created.Add(time.Minute)
			cluster.AddPod(since)
			cluster.AddPod(schedtest.MakePod().Name("high-0").Group("high").Priority(1000).Req(schedtest.Resources{"cpu": "4"}).Obj())
			action, _ := vcframework.GetAction("allocate")
			ssn := scheduler.Open()
			defer ssn.Close()
			ssn.Run(action)
			if diff := cmp.Diff(tt.want, ssn.Binds()); diff != "" {
				t.Errorf("binds (-want +got):\n%s", diff)
			}
		})
	}
}
