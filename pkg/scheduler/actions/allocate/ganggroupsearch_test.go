// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAGangOfAGroupMakesWayToAnotherCluster checks that a gang of a group moves to another cluster. Gang a prefers
// cluster ib-b, whose nodes b needs. Gang b prefers the node in ib-a that a needs. Gangs with host ports
// get no packing for the whole group, so only the search finds these placements.
func TestAGangOfAGroupMakesWayToAnotherCluster(t *testing.T) {
	c := newGroup(t, []string{"3", "3"}, []string{"2", "2"},
		node("n1", "ib-a", "6"), node("n2", "ib-b", "4"), node("n3", "ib-b", "3"), node("n4", "ib-a", "2"))
	c.conf += "  - name: helper\n"
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{open: nothing, part: sessiontest.NodeGroupScoreFn(func(_ *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
			if trial.Group.Path() == "ib-b" {
				return 1e6, nil
			}
			return 0, nil
		})}, nil
	})})
	c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
	for i, nodes := range [][]int{{0, 1}, {1, 2}} {
		pool := fmt.Sprint("pool-", i)
		for _, n := range nodes {
			c.world.Nodes[n].Labels[pool] = "yes"
		}
		c.world.Pods[i].Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(80 + i), ContainerPort: 80}}
		c.world.Pods[2+i].Spec.NodeSelector = map[string]string{pool: "yes"}
	}
	c.expect(t, "a has room in ib-a", 4)
}

// TestAGangOfAGroupMakesWayTwice checks that a gang of a group moves twice. Gang a prefers clusters ib-b and ib-c,
// whose nodes b needs. Gang b prefers the node in ib-a that a needs.
func TestAGangOfAGroupMakesWayTwice(t *testing.T) {
	c := newGroup(t, []string{"3", "3"}, []string{"2", "2", "2"},
		node("n1", "ib-a", "6"), node("n2", "ib-b", "4"), node("n3", "ib-b", "3"), node("n4", "ib-a", "2"), node("n5", "ib-c", "4"), node("n6", "ib-c", "3"))
	c.conf += "  - name: helper\n"
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{open: nothing, part: sessiontest.NodeGroupScoreFn(func(_ *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
			return map[string]float64{"ib-b": 2e6, "ib-c": 1e6}[trial.Group.Path()], nil
		})}, nil
	})})
	c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
	for i, nodes := range [][]int{{0, 1}, {1, 2}, {4, 5}} {
		pool := fmt.Sprint("pool-", i)
		for _, n := range nodes {
			c.world.Nodes[n].Labels[pool] = "yes"
		}
		c.world.Pods[2+i].Spec.NodeSelector = map[string]string{pool: "yes"}
	}
	for i := range 2 {
		c.world.Pods[i].Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(80 + i), ContainerPort: 80}}
	}
	c.expect(t, "a has room in ib-a", 5)
}

// TestASearchForALargeGroupIsBounded checks that the number of placed members limits the search for a large gang
// group. Gang a has room in each of 20 clusters, but b has room beside it in none.
func TestASearchForALargeGroupIsBounded(t *testing.T) {
	const clusters, members = 20, 900
	var nodes []*v1.Node
	var a, b []string
	for i := range clusters {
		name := fmt.Sprintf("n%02d", i)
		nodes = append(nodes, schedtest.MakeNode().Name(name).Label("ibcluster", "ib-"+name).Label(v1.LabelHostname, name).
			Capacity(schedtest.Resources{"cpu": "910", "memory": "64Gi", "pods": "2000"}).Obj())
		b = append(b, "20")
	}
	for range members {
		a = append(a, "1")
	}
	c := newGroup(t, a, b, nodes...)
	c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
	for i, pod := range c.world.Pods[members:] {
		pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: nodes[i].Name}
	}
	placed, bound := c.session()
	if bound != 0 || placed < 5*members || placed > 15*members {
		t.Errorf("%d members are placed in trials and %d are bound, want %d to %d and none", placed, bound, 5*members, 15*members)
	}
}
