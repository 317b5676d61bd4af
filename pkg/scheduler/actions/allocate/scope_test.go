// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// withNodeGroups restricts queues to their own node groups.
const withNodeGroups = `
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodegroup
`

// queueOn returns a queue whose pods may use nodes of the node group only.
func queueOn(name, group string) *v1beta1.Queue {
	queue := schedtest.MakeQueue().Name(name).Obj()
	queue.Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []string{group},
	}}
	return queue
}

// nodesOf returns nodes of the node group.
func nodesOf(group, cpu string, names ...string) []*v1.Node {
	return nodes(holds(cpu).Label("volcano.sh/nodegroup-name", group), names...)
}

// TestAVerdictHoldsForJobsOfItsScopeOnly checks that a filter result applies only to jobs in its scope. Plugins whose
// results depend on more than the task are called again for a task of another job, although its tasks are equal.
func TestAVerdictHoldsForJobsOfItsScopeOnly(t *testing.T) {
	gang := func(name string) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().Name(name).MinMember(2) }
	pods := func(gang string) []*v1.Pod {
		return each(schedtest.MakePod().Group(gang).Req(cores("1")), gang+"-0", gang+"-1")
	}
	var inClusters []*v1.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		inClusters = append(inClusters, holds("1").Name(name).Label("cluster", "ib-"+name).Obj())
	}
	preferring := func(name, clusters string) *v1beta1.PodGroup {
		return gang(name).Annotation(ibcluster.ModeAnnotation, "preferred").Annotation(ibcluster.ClustersAnnotation, clusters).Obj()
	}
	runTable(t, map[string]behaviour{
		"queues have node groups of their own": {
			conf: withNodeGroups,
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodesOf("ga", "4", "a1"), nodesOf("gb", "4", "b1")...),
				Queues:    []*v1beta1.Queue{queueOn("qa", "ga"), queueOn("qb", "gb")},
				PodGroups: []*v1beta1.PodGroup{gang("g").Queue("qa").Obj(), gang("h").Queue("qb").Obj()},
				Pods:      append(pods("g"), pods("h")...),
			},
			binds: map[string]string{"g-0": "a1", "g-1": "a1", "h-0": "b1", "h-1": "b1"},
		},
		"gangs that are spread prefer clusters that have none in common": {
			conf:    clustersFirst,
			plugins: []framework.PluginSpec{ibcluster.Spec()},
			world: sessiontest.ClusterSpec{
				Nodes:     inClusters,
				PodGroups: []*v1beta1.PodGroup{preferring("g", "ib-a,ib-b"), preferring("h", "ib-c,ib-d")},
				Pods:      append(pods("g"), pods("h")...),
			},
			binds:           map[string]string{"g-0": "a", "g-1": "b", "h-0": "c", "h-1": "d"},
			upstreamDiffers: "it spreads no gang over node groups",
		},
	})
}

// clustersFirst lets only ibcluster choose the node groups of gangs.
const clustersFirst = `
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: ibcluster
    arguments:
      ibcluster.levels: [cluster]
`

// rooms is a plugin that gives every gang node groups, which cross the boundaries of clusters. It may require one of
// them or only prefer it.
type rooms struct {
	framework.NoFilter
	required bool
	forest   *topology.Forest
}

func (*rooms) Name() string { return "rooms" }

func (r *rooms) OnSessionOpen(ssn *framework.Session) {
	var list []*v1.Node
	for _, node := range ssn.NodeList {
		list = append(list, node.Node)
	}
	r.forest = topology.NewLabels("room").Forest(list)
}

func (r *rooms) Placement(*api.JobInfo) (framework.Placement, error) {
	return framework.Placement{NodeGroups: &framework.NodeGroups{Required: r.required, Candidates: r.forest.At(0)}}, nil
}

func (*rooms) OnSessionClose(*framework.Session) {}

func roomsSpec(required bool) framework.PluginSpec {
	return framework.PluginSpec{Name: "rooms",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return &rooms{required: required}, nil
		})}
}

// roomsFirst gives another plugin's node groups precedence over ibcluster's.
const roomsFirst = `
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: rooms
  - name: ibcluster
    arguments:
      ibcluster.levels: [cluster]
`

// TestARequiredGangLiesInOneClusterBesideOtherNodeGroups checks that a gang that requires a cluster stays in one
// cluster if other node groups have precedence. Once a member is placed, ibcluster refuses the nodes of other clusters,
// which those node groups contain, too.
func TestARequiredGangLiesInOneClusterBesideOtherNodeGroups(t *testing.T) {
	cases := map[string]behaviour{}
	for name, required := range map[string]bool{"required": true, "preferred": false} {
		inRoom := func(cluster string, names ...string) []*v1.Node {
			return nodes(holds("2").Label("cluster", cluster).Label("room", "r"), names...)
		}
		pods := func(gang string) []*v1.Pod {
			return each(schedtest.MakePod().Group(gang).Req(cores("1")), gang+"-0", gang+"-1", gang+"-2")
		}
		gang := func(name string) *v1beta1.PodGroup {
			return schedtest.MakePodGroup().Name(name).MinMember(3).Annotation(ibcluster.ModeAnnotation, "required").Obj()
		}
		cases["rooms are "+name] = behaviour{
			conf:    roomsFirst,
			plugins: []framework.PluginSpec{roomsSpec(required), ibcluster.Spec()},
			world: sessiontest.ClusterSpec{
				// Scores prefer to spread members evenly over all nodes.
				Nodes:     append(inRoom("ib-a", "a1", "a2"), inRoom("ib-b", "b1", "b2")...),
				PodGroups: []*v1beta1.PodGroup{gang("g"), gang("h")},
				Pods:      append(pods("g"), pods("h")...),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "h-0": "*", "h-1": "*", "h-2": "*"},
			together: [][]string{
				{"g-0", "g-1", "g-2"}, {"h-0", "h-1", "h-2"},
			},
			upstreamDiffers: "it knows no node groups",
		}
	}
	runTable(t, cases)
}
