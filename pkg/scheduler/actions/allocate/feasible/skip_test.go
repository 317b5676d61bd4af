// SPDX-License-Identifier: Apache-2.0

package feasible_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// choosy filters only pods with the label ask, and refuses all nodes to them.
type choosy struct {
	framework.DefaultSigner
	asked map[string]bool
}

func (*choosy) Name() string                          { return "choosy" }
func (*choosy) OnSessionClose(ssn *framework.Session) {}
func (c *choosy) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPredicateFn("choosy", func(task *api.TaskInfo, node *api.NodeInfo) error {
		c.asked[task.Name] = true
		return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.Unschedulable, Reason: "not here"})
	})
}
func (c *choosy) PodKeys() framework.PodKeys { return framework.SomePodKeys("ask") }
func (c *choosy) SignTask(task *api.TaskInfo) framework.CacheScope {
	if task.Pod.Labels["ask"] == "" {
		return framework.Unaffected
	}
	return framework.PerTaskClass
}

// TestAPluginIsNotAskedAboutTasksItSkips checks that a plugin is not called for tasks that it skips, but is called
// for others.
func TestAPluginIsNotAskedAboutTasksItSkips(t *testing.T) {
	c := &choosy{asked: map[string]bool{}}
	registry := framework.NewRegistry()
	registry.RegisterPlugin(framework.PluginSpec{
		Name: "choosy",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return c, nil }),
	})
	registry.RegisterAction(allocate.New())
	action, _ := vcframework.GetAction("allocate")
	one := schedtest.Resources{"cpu": "1"}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "pods": "20"}).Obj()},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("plain").Obj(), schedtest.MakePodGroup().Name("asking").Obj()},
		Pods: []*v1.Pod{
			schedtest.MakePod().Name("plain-0").Group("plain").Req(one).Obj(),
			schedtest.MakePod().Name("asking-0").Group("asking").Req(one).Label("ask", "yes").Obj(),
		},
	})
	defer cluster.Close()
	ssn := cluster.Open(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: choosy\n")
	defer ssn.Close()
	ssn.Run(action)
	if diff := cmp.Diff(map[string]string{"ns/plain-0": "n"}, ssn.Binds()); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"asking-0"}, slices.Sorted(maps.Keys(c.asked))); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
}
