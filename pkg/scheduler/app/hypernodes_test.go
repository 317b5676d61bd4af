// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// faultyHyperNodes are invalid HyperNodes that the API server accepts, and the event that one of them must have.
var faultyHyperNodes = map[string]struct {
	hyperNodes []*topologyv1alpha1.HyperNode
	told       string
}{
	"a member of itself": {
		hyperNodes: []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("evil").Tier(2).HyperNodes("evil").Obj()},
		told:       "HyperNodeInvalid evil: ",
	},
	"members of each other": {
		hyperNodes: []*topologyv1alpha1.HyperNode{
			schedtest.MakeHyperNode().Name("evil-0").Tier(2).HyperNodes("evil-1").Obj(),
			schedtest.MakeHyperNode().Name("evil-1").Tier(2).HyperNodes("evil-0").Obj(),
		},
		told: "HyperNodeInvalid evil-1: ",
	},
	"a member of two": {
		hyperNodes: []*topologyv1alpha1.HyperNode{
			schedtest.MakeHyperNode().Name("evil-0").Tier(2).HyperNodes("innocent").Obj(),
			schedtest.MakeHyperNode().Name("evil-1").Tier(2).HyperNodes("innocent").Obj(),
		},
		told: "HyperNodeInvalid evil-1: ",
	},
	"a member HyperNode that only a regular expression names, of one with the member of another": {
		hyperNodes: []*topologyv1alpha1.HyperNode{
			schedtest.MakeHyperNode().Name("evil-0").Tier(2).HyperNodes("innocent").Obj(),
			likeHyperNodes("evil-1", "innocent"),
		},
		told: "HyperNodeInvalid evil-1: ",
	},
	"a regular expression that is none": {
		hyperNodes: []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("evil").NodesLike("(").Obj()},
		told:       "HyperNodeInvalid evil: ",
	},
}

func likeHyperNodes(name, member string) *topologyv1alpha1.HyperNode {
	hyperNode := schedtest.MakeHyperNode().Name(name).Tier(2).HyperNodes(member).NodesLike("x").Obj()
	hyperNode.Spec.Members[1].Type = topologyv1alpha1.MemberTypeHyperNode
	return hyperNode
}

// TestInvalidHyperNodesStopNoGang checks that invalid HyperNodes stop no gang. A gang that requires a HyperNode, or
// an InfiniBand cluster derived from one, gets it, and the invalid HyperNodes have events for their owners.
func TestInvalidHyperNodesStopNoGang(t *testing.T) {
	for name, tt := range faultyHyperNodes {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj())
			innocentInHyperNode(cluster)
			cluster.Put(schedtest.MakePodGroup().Name("ib").MinMember(1).Annotation(ibcluster.ModeAnnotation, "required").Obj())
			cluster.Put(schedtest.MakePod().Name("ib").Group("ib").Req(schedtest.Resources{"cpu": "1"}).Obj())
			for _, hyperNode := range tt.hyperNodes {
				cluster.Put(hyperNode)
			}
			s := newTestScheduler(t, cluster, loaded(t, `
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: ibcluster, arguments: {ibcluster.source: hypernodes, ibcluster.levels: ["1"]}}]
`))

			s.cycle()

			for _, pod := range []string{"t0", "ib"} {
				eventually(t, func() bool { return cluster.Pod(pod).Spec.NodeName == "n" })
			}
			s.cycle()
			told := 0
			for _, event := range cluster.Events.Take() {
				if strings.Contains(event, tt.told) {
					told++
				}
			}
			if told != 1 {
				t.Errorf("reported %q %d times, want once", tt.told, told)
			}
		})
	}
}

// loaded returns the configuration of the text.
func loaded(t testing.TB, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.NewLoader(path, config.NewCatalogue(PluginSpecs()...), false).Load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
