// SPDX-License-Identifier: Apache-2.0

package feasible_test

import (
	"maps"
	"slices"
	"strings"
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

// homely is a plugin that lets a pod with the label home use only the node that the label names.
type homely struct {
	framework.DefaultSigner
	asked map[string]bool
}

func (*homely) Name() string                      { return "homely" }
func (*homely) OnSessionClose(*framework.Session) {}
func (h *homely) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPredicateFn("homely", func(task *api.TaskInfo, node *api.NodeInfo) error {
		h.asked[task.Name+" on "+node.Name] = true
		if home := task.Pod.Labels["home"]; home != "" && home != node.Name {
			return api.NewFitErrWithStatus(task, node, notHome)
		}
		return nil
	})
}

func (h *homely) PodKeys() framework.PodKeys                  { return framework.SomePodKeys("home") }
func (h *homely) SignTask(*api.TaskInfo) framework.CacheScope { return framework.PerTaskClass }

func (h *homely) Reach(task *api.TaskInfo) *framework.Reach {
	home := task.Pod.Labels["home"]
	switch home {
	case "":
		return nil
	case "panics":
		panic("oh no")
	}
	return &framework.Reach{Nodes: []string{home, "no such node"}, Refusal: api.NewFitErrWithStatus(task, &api.NodeInfo{}, notHome)}
}

var notHome = &api.Status{Code: api.UnschedulableAndUnresolvable, Reason: "node(s) are not its home"}

// TestReach checks that no plugin filters a node that a task cannot reach, and that the gang's message says why.
func TestReach(t *testing.T) {
	cases := map[string]struct {
		home, conf string
		asked      []string
		binds      map[string]string
		told       string
	}{
		"one node":             {home: "n2", asked: []string{"p on n2"}, binds: map[string]string{"ns/p": "n2"}},
		"any node":             {asked: []string{"p on n1", "p on n2", "p on n3"}, binds: map[string]string{"ns/p": "n1"}},
		"no node":              {home: "n4", told: "not its home"},
		"the predicate is off": {home: "n4", conf: "    enablePredicate: false\n", binds: map[string]string{"ns/p": "n1"}},
		"a panic":              {home: "panics", asked: []string{"p on n1", "p on n2", "p on n3"}, told: "not its home"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := &homely{asked: map[string]bool{}}
			registry := framework.NewRegistry()
			registry.RegisterPlugin(framework.PluginSpec{
				Name: "homely",
				Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return h, nil }),
			})
			registry.RegisterAction(allocate.New())
			action, _ := vcframework.GetAction("allocate")
			world := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()}}
			for _, name := range []string{"n1", "n2", "n3"} {
				world.Nodes = append(world.Nodes, schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "pods": "20"}).Obj())
			}
			world.Pods = []*v1.Pod{schedtest.MakePod().Name("p").Group("g").Req(schedtest.Resources{"cpu": "1"}).Label("home", tc.home).Obj()}
			cluster := sessiontest.New(world)
			defer cluster.Close()
			ssn := cluster.Open(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: homely\n"+tc.conf)
			defer ssn.Close()
			ssn.Run(action)
			if diff := cmp.Diff(tc.asked, slices.Sorted(maps.Keys(h.asked))); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if got := ssn.Binds(); len(got) != len(tc.binds) || got["ns/p"] != tc.binds["ns/p"] {
				t.Errorf("bound %v, want %v", got, tc.binds)
			}
			for _, job := range ssn.Jobs {
				if told := job.FitError(); tc.told != "" && !strings.Contains(told, tc.told) {
					t.Errorf("the message is %q, want %q", told, tc.told)
				}
			}
		})
	}
}
