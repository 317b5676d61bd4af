// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestMembersApartAskANodeOnce checks that a node from which a member excludes the others is filtered once, and again
// when the member is removed. With binpack such a node has the best score for each of the others.
func TestMembersApartAskANodeOnce(t *testing.T) {
	const members = 3
	w := sessiontest.ClusterSpec{}
	for i := range members + 1 {
		name := fmt.Sprintf("n%d", i)
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Label(v1.LabelHostname, name).Capacity(schedtest.Resources{"cpu": "8", "memory": "64Gi", "pods": "20"}).Obj())
	}
	for i := range members {
		pod := schedtest.MakePod().Name(fmt.Sprintf("g-%d", i)).Group("g").Label("app", "x").Req(schedtest.Resources{"cpu": "1"}).Obj()
		away(v1.LabelHostname, "x")(pod)
		w.Pods = append(w.Pods, pod)
	}
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("g").MinMember(members).Obj())
	cluster := sessiontest.New(w)
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), predicatesOnly+"  - name: binpack\n")
	defer ssn.Close()
	index := nodeset.New(ssn.Session)
	f := New(ssn.Session, index, options.NewServerOption(), NewFactCache())
	where := Where{Set: index.All}

	var last *vcframework.Statement
	var lastTask *api.TaskInfo
	var candidates *CandidateNodes
	choose := func(task *api.TaskInfo) Choice {
		t.Helper()
		cache, err := f.Cache(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.PrePredicate(task); err != nil {
			t.Fatal(err)
		}
		choice, ok, errs := f.Choose(task, cache, where, true, nil)
		if !ok {
			t.Fatalf("%s fits nowhere: %v", task.Name, errs.Error())
		}
		candidates = f.Candidates(task, cache, where)
		return choice
	}
	var tasks []*api.TaskInfo
	for _, job := range ssn.Jobs {
		for i := range members {
			for _, task := range job.Tasks {
				if task.Name == fmt.Sprintf("g-%d", i) {
					tasks = append(tasks, task)
				}
			}
		}
	}
	taken := map[int32]bool{}
	for i, task := range tasks {
		choice := choose(task)
		if taken[choice.Node] {
			t.Fatalf("%s was put to another member", task.Name)
		}
		if got := candidates.ranking.Len(); got != len(w.Nodes)-i {
			t.Errorf("with %d members placed %d nodes are still asked about, want %d", i, got, len(w.Nodes)-i)
		}
		if i == members-1 {
			break
		}
		taken[choice.Node] = true
		last, lastTask = vcframework.NewStatement(ssn.Session.Session), task
		if err := last.Allocate(task, index.Nodes[choice.Node]); err != nil {
			t.Fatal(err)
		}
		f.Placed(task, index.Nodes[choice.Node])
	}
	was := lastTask.NodeName
	last.Discard()
	lastTask.NodeName = ""
	lastTask.Pod.Spec.NodeName = ""
	f.TakenBack(lastTask)
	if choice := choose(lastTask); index.Nodes[choice.Node].Name != was {
		t.Errorf("after it was taken back the member is put on %s, want %s again", index.Nodes[choice.Node].Name, was)
	}
	if got := candidates.ranking.Len(); got != len(w.Nodes)-members+2 {
		t.Errorf("after a member was taken back %d nodes are asked about, want %d", got, len(w.Nodes)-members+2)
	}
}
