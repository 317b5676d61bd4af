// SPDX-License-Identifier: Apache-2.0

package sessiontest_test

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestASessionOnBooksIsGivenCopiesAgain checks that a session on books reuses only the copies that have not changed
// since the session before.
func TestASessionOnBooksIsGivenCopiesAgain(t *testing.T) {
	const conf = "actions: allocate\ntiers:\n- plugins:\n  - name: coscheduling\n  - name: gang\n  - name: predicates\n"
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	cluster.UseBooks(true)
	cluster.Load(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{
			schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj(),
			schedtest.MakeNode().Name("n2").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj(),
		},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("h").Obj()},
		Pods: []*v1.Pod{
			schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "5"}).Obj(),
			schedtest.MakePod().Name("h-0").Group("h").Req(schedtest.Resources{"cpu": "5"}).Obj(),
		},
	})
	registry := framework.NewRegistry()
	registry.RegisterPlugin(coscheduling.Spec())
	scheduler := cluster.Scheduler(registry, conf)
	defer scheduler.Close()
	first := scheduler.Open()
	nodes, jobs := maps.Clone(first.Nodes), maps.Clone(first.Jobs)
	first.Close()
	cluster.AddPod(schedtest.MakePod().Name("h-1").Group("h").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj())
	second := scheduler.Open()
	defer second.Close()
	for name, again := range map[string]bool{"n1": true, "n2": false} {
		if got := nodes[name] == second.Nodes[name]; got != again {
			t.Errorf("node %s is given again: %t, want %t", name, got, again)
		}
	}
	for name, again := range map[string]bool{"g": true, "h": false} {
		id := api.JobID(schedtest.Namespace + "/" + name)
		if got := jobs[id] == second.Jobs[id]; got != again {
			t.Errorf("job %s is given again: %t, want %t", name, got, again)
		}
	}
	if idle := second.Nodes["n2"].Idle.MilliCPU; idle != 3000 {
		t.Errorf("n2 has %g milli-cpu idle, want 3000", idle)
	}
}

// TestAFailedTrialLeavesCopiesUnchanged checks that a failed trial leaves copies unchanged. A gang with one member
// that fits is placed and reverted in each session, which changes nothing.
func TestAFailedTrialLeavesCopiesUnchanged(t *testing.T) {
	const conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	cluster.UseBooks(true)
	cluster.Load(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj()},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Phase(v1beta1.PodGroupInqueue).Obj()},
		Pods: []*v1.Pod{
			schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "3"}).Obj(),
			schedtest.MakePod().Name("g-1").Group("g").Req(schedtest.Resources{"cpu": "3"}).Obj(),
		},
	})
	scheduler := cluster.Scheduler(framework.NewRegistry(), conf)
	defer scheduler.Close()
	first := scheduler.Open()
	node, job := first.Nodes["n1"], first.Jobs[schedtest.Namespace+"/g"]
	first.Run(vcallocate.New())
	first.Close()
	second := scheduler.Open()
	defer second.Close()
	if second.Nodes["n1"] != node || second.Jobs[schedtest.Namespace+"/g"] != job {
		t.Errorf("the node is given again: %t, the job: %t, want both", second.Nodes["n1"] == node, second.Jobs[schedtest.Namespace+"/g"] == job)
	}
	if scalars := second.Nodes["n1"].Used.ScalarResources; scalars != nil {
		t.Errorf("n1 has used %v, want no such resources", scalars)
	}
}
