// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// refusingReserver reserves for all tasks except the named one.
type refusingReserver struct{ task string }

func (r refusingReserver) Reserve(task *api.TaskInfo, _ *api.NodeInfo) error {
	if task.Name == r.task {
		return errors.New("the licence server has none left")
	}
	return nil
}
func (refusingReserver) Unreserve(*api.TaskInfo)                               {}
func (refusingReserver) PreBind(context.Context, *api.TaskInfo, string) error  { return nil }
func (refusingReserver) Rollback(context.Context, *api.TaskInfo, string) error { return nil }

// TestRefusalOfATaskThatFitsIsReported checks that the message of a gang names the refusal if the nodes have enough
// resources, and does not claim that the members filled the nodes.
func TestRefusalOfATaskThatFitsIsReported(t *testing.T) {
	refusals := map[string]struct {
		open func(ssn *framework.Session, task string)
		want string
		// reserves reports whether the plugin is a Reserver.
		reserves bool
	}{
		"a Reserver": {func(*framework.Session, string) {}, "refused by plugin refuser: the licence server has none left", true},
		"an event handler": {func(ssn *framework.Session, task string) {
			ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
				if e.Task.Name == task {
					e.Err = errors.New("not this one")
				}
			}})
		}, "refused by a plugin after all filters accepted the node", false},
		"Allocatable": {func(ssn *framework.Session, task string) {
			ssn.AddAllocatableFn("refuser", func(_ *api.QueueInfo, one *api.TaskInfo) bool { return one.Name != task })
		}, "refuser", false},
	}
	gangs := map[string]struct {
		requests []string
		nodes    []string
	}{
		"alike":                     {[]string{"3", "3"}, []string{"4", "4"}},
		"of two sizes":              {[]string{"5", "3"}, []string{"6", "4"}},
		"that must be packed":       {[]string{"6", "4", "4", "3", "3"}, []string{"10", "10"}},
		"whose members fill a node": {[]string{"3", "3", "3", "3"}, []string{"6", "6"}},
	}
	for by, refused := range refusals {
		for of, g := range gangs {
			for where, annotations := range map[string]map[string]string{"anywhere": nil, "in a cluster": {ibcluster.ModeAnnotation: "required"}} {
				for _, task := range []string{"g-0", "g-1"} {
					t.Run(by+", a gang "+of+", "+where+", "+task, func(t *testing.T) {
						pods, podGroup := gang("g", g.requests...)
						podGroup.Annotations = annotations
						w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
						for i, cpu := range g.nodes {
							w.Nodes = append(w.Nodes, node([]string{"a1", "a2"}[i], "ib-a", cpu))
						}
						ssn := ran(t, w, strings.Replace(withClusters, "- name: gang\n", "- name: gang\n  - name: refuser\n", 1), framework.PluginSpec{
							Name: "refuser",
							Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
								made := helper{reads: framework.SomePodKeys(), open: func(ssn *framework.Session) { refused.open(ssn, task) }}
								if refused.reserves {
									return struct {
										helper
										refusingReserver
									}{made, refusingReserver{task}}, nil
								}
								return made, nil
							}),
						})
						says := ssn.Jobs[api.JobID(schedtest.Namespace+"/g")].JobFitErrors
						if len(ssn.Binds()) > 0 || !strings.Contains(says, refused.want) || strings.Contains(says, "errInfos") {
							t.Errorf("bound %v, the message is %q, want %q in it", ssn.Binds(), says, refused.want)
						}
					})
				}
			}
		}
	}
}

// TestAGangThatAPluginAllowsNowhereReportsWhy checks that the pending reason of a gang names the plugin that refuses
// it on every node.
func TestAGangThatAPluginAllowsNowhereReportsWhy(t *testing.T) {
	pods, podGroup := gang("g", "1")
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.helped(nothing, sessiontest.NodeGroupsFn(func(*api.JobInfo) (*framework.NodeGroups, error) { return nil, errors.New("not here") }))
	c.look(func(ssn *sessiontest.Session) {
		want := framework.PendingReason{Reason: framework.NotEnoughResources, Message: "plugin helper: not here"}
		if got, _ := ssn.PendingReason("ns/g"); got != want || len(ssn.Binds()) > 0 {
			t.Errorf("bound %v, and the gang is pending for %v, want none, and %v", ssn.Binds(), got, want)
		}
	})
}
