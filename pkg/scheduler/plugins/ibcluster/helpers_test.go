// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// nodes returns nodes from texts "name cluster spine leaf", with 4 cpu each. A dash, or a missing field at the end,
// means that the node does not have the label.
func nodes(texts ...string) []*v1.Node {
	var list []*v1.Node
	for _, text := range texts {
		fields := strings.Fields(text)
		node := schedtest.MakeNode().Name(fields[0]).Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "10", "rdma/hca": "8"})
		for i, value := range fields[1:] {
			if value != "-" {
				node.Label([]string{"ibcluster", "spine", "leaf"}[i], value)
			}
		}
		list = append(list, node.Obj())
	}
	return list
}

// two returns two clusters of two nodes, and a node without a cluster.
func two() []*v1.Node { return nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "x") }

// gang returns a PodGroup with this minimum, and with annotations "key=value" of the plugin.
func gang(name string, minMember int32, wishes ...string) *schedtest.PodGroupBuilder {
	b := schedtest.MakePodGroup().Name(name).MinMember(minMember)
	for _, wish := range wishes {
		key, value, _ := strings.Cut(wish, "=")
		b.Annotation(annotationPrefix+key, value)
	}
	return b
}

// members returns pods of 1 cpu each: "group/index" is pending, "group/index@node" runs on the node, and with a "!" at
// the end the pod is terminating there.
func members(texts ...string) []*v1.Pod {
	var list []*v1.Pod
	for _, text := range texts {
		name, node, _ := strings.Cut(text, "@")
		list = append(list, member(name, node).Obj())
	}
	return list
}

func member(name, node string) *schedtest.PodBuilder {
	group, _, _ := strings.Cut(name, "/")
	pod := schedtest.MakePod().Name(strings.ReplaceAll(name, "/", "-")).Group(group).Req(schedtest.Resources{"cpu": "1"}).
		Annotation(v1beta1.PodPreemptable, "true")
	if node != "" {
		pod.Node(strings.TrimSuffix(node, "!")).Phase(v1.PodRunning)
	}
	if strings.HasSuffix(node, "!") {
		pod.Terminating()
	}
	return pod
}

// conf returns a configuration with the plugin. Each of the plugin's arguments is a line "name: value".
func conf(arguments ...string) string {
	text := `
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
    arguments:
      predicate.VolumeBindingEnable: false
  - name: nodeorder
  - name: ibcluster
`
	if len(arguments) > 0 {
		text += "    arguments:\n"
	}
	for _, argument := range arguments {
		text += "      ibcluster." + argument + "\n"
	}
	return text
}

// fixture is a cluster with the plugin and its events. All sessions use the same plugin instance, until reload.
type fixture struct {
	*sessiontest.Cluster
	session  *sessiontest.Session
	plugin   *plugin
	registry *framework.Registry
	conf     string
	events   *schedtest.Events
}

// open opens a session on the cluster.
func open(t *testing.T, w sessiontest.ClusterSpec, arguments ...string) *fixture {
	t.Helper()
	f := &fixture{Cluster: sessiontest.New(w), registry: framework.NewRegistry(), conf: conf(arguments...), events: &schedtest.Events{}}
	t.Cleanup(f.Cluster.Close)
	f.Cache().Recorder = f.events
	spec := Spec()
	build := spec.New
	spec.Load = func(args framework.Arguments) (framework.Builder, error) {
		return func(h framework.Handle) (framework.Plugin, error) {
			if f.plugin == nil {
				built, err := build(args, h)
				if err != nil {
					return nil, err
				}
				f.plugin = built.(*plugin)
			}
			return f.plugin, nil
		}, nil
	}
	f.registry.RegisterPlugin(spec)
	f.registry.RegisterAction(preempt.New(nil))
	f.registry.RegisterAction(preempt.NewReclaim(nil))
	f.session = f.Cluster.Open(f.registry, f.conf)
	t.Cleanup(func() { f.session.Close() })
	return f
}

// action returns this project's action preempt or reclaim.
func (f *fixture) action(name string) vcframework.Action {
	action, _ := vcframework.GetAction(name)
	return action
}

// reopen closes the session and opens the next one. If w is set, it replaces the cluster's objects.
func (f *fixture) reopen(t *testing.T, w *sessiontest.ClusterSpec) {
	t.Helper()
	f.session.Close()
	if w != nil {
		f.Load(*w)
	}
	f.session = f.Cluster.Open(f.registry, f.conf)
}

// reload is reopen with a new plugin instance, as after a change of the configuration.
func (f *fixture) reload(t *testing.T, w *sessiontest.ClusterSpec) {
	t.Helper()
	f.plugin = nil
	f.reopen(t, w)
}

func (f *fixture) job(group string) *api.JobInfo {
	return f.session.Jobs[api.JobID(schedtest.Namespace+"/"+group)]
}

func (f *fixture) task(name string) *api.TaskInfo {
	group, _, _ := strings.Cut(name, "/")
	for _, task := range f.job(group).Tasks {
		if task.Name == strings.ReplaceAll(name, "/", "-") {
			return task
		}
	}
	panic("no task " + name)
}

// admitted lists the nodes that the filters accept for the task.
func (f *fixture) admitted(name string) string {
	task := f.task(name)
	if err := f.session.PrePredicateFn(task); err != nil {
		return err.Error()
	}
	var names []string
	for _, node := range f.session.NodeList {
		if f.session.PredicateFn(task, node) == nil {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// groups returns the gang's permitted and refused node groups, one per line.
func (f *fixture) groups(group string) []string {
	placement, err := f.session.Placements.Of(f.job(group))
	groups := placement.NodeGroups
	switch {
	case err != nil:
		return []string{"error: " + err.Error()}
	case groups == nil:
		return []string{"no wish"}
	}
	lines := []string{fmt.Sprintf("required %t", groups.Required)}
	for _, g := range groups.Candidates {
		lines = append(lines, g.Path())
	}
	for _, path := range slices.Sorted(maps.Keys(groups.Refused)) {
		lines = append(lines, path+" not: "+groups.Refused[path])
	}
	return lines
}

// place allocates the task on the node in a statement, which is not committed.
func (f *fixture) place(t *testing.T, name, node string) *vcframework.Statement {
	t.Helper()
	statement := vcframework.NewStatement(f.session.Session.Session)
	if err := statement.Allocate(f.task(name), f.session.Nodes[node]); err != nil {
		t.Fatal(err)
	}
	return statement
}
