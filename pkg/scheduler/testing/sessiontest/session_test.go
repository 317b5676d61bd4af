// SPDX-License-Identifier: Apache-2.0

package sessiontest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
`

func TestAnActionRunsOnTheWorldAndItsBindsAreWrittenDown(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj()},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj()},
		Pods:      []*v1.Pod{schedtest.MakePod().Name("p").Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj()},
	})
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), conf)
	defer ssn.Close()

	ssn.Run(vcallocate.New())

	if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/p": "n1"}, ssn.Binds()); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
}

func TestHyperNodesHaveTheirMembersByNamePatternAndLabel(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	cluster.Load(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{
			schedtest.MakeNode().Name("n1").Obj(), schedtest.MakeNode().Name("r1").Obj(), schedtest.MakeNode().Name("r2").Obj(), schedtest.MakeNode().Name("l1").Label("rack", "l").Obj(),
		},
		HyperNodes: []*topologyv1alpha1.HyperNode{
			schedtest.MakeHyperNode().Name("top").Tier(2).HyperNodes("exact", "pattern", "label").Obj(),
			schedtest.MakeHyperNode().Name("exact").Nodes("n1").Obj(),
			schedtest.MakeHyperNode().Name("pattern").NodesLike("^r[0-9]$").Obj(),
			schedtest.MakeHyperNode().Name("label").NodesLabelled("rack", "l").Obj(),
		},
	})
	ssn := cluster.Open(framework.NewRegistry(), conf)
	defer ssn.Close()

	if !ssn.HyperNodesReadyToSchedule {
		t.Error("HyperNodes are not ready")
	}
	want := map[string][]string{"exact": {"n1"}, "pattern": {"r1", "r2"}, "label": {"l1"}, "top": {"l1", "n1", "r1", "r2"}}
	for name, nodes := range want {
		if diff := cmp.Diff(nodes, sets.List(ssn.RealNodesSet[name])); diff != "" {
			t.Errorf("nodes of %s (-want +got):\n%s", name, diff)
		}
	}
}
