// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	stdcmp "cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// The tables hold what the action does, seen from outside: clusters and what must become of them, for this project's action and for
// upstream's where both agree, and the regression tests of upstream's defects.

// implementation is an implementation of allocate under test.
type implementation struct {
	name string
	// make makes the action for one session of the registry.
	make func(registry *framework.Registry) vcframework.Action
}

var upstream = implementation{"upstream", func(*framework.Registry) vcframework.Action { return vcallocate.New() }}

var ours = implementation{"ours", func(registry *framework.Registry) vcframework.Action {
	registry.RegisterAction(allocate.New())
	action, _ := vcframework.GetAction("allocate")
	return action
}}

// implementations are the implementations to which the tables apply.
var implementations = []implementation{upstream, ours}

// behaviour is a world and what one run of allocate makes of it.
type behaviour struct {
	world sessiontest.ClusterSpec
	// conf is the scheduler's configuration; plain when empty.
	conf string
	// plugins are the test's own, which the conf names.
	plugins []framework.PluginSpec
	// prepare changes the cluster before the session opens.
	prepare func(*sessiontest.Cluster)
	// enqueue reports whether the enqueue action is configured too; it has nothing to do.
	enqueue bool

	// binds is the node of every pod that is to be bound, by the pod's name. Where chance has a say, alternatives are
	// separated by "|", and "*" is any node.
	binds map[string]string
	// pipelined is the same for pods that wait for room to become free.
	pipelined map[string]string
	// together lists pods that must lie in one rack.
	together [][]string
	// check looks at what the rest does not say.
	check func(*testing.T, *sessiontest.Session)
	// upstreamDiffers says why upstream's action does not do this; empty when it does.
	upstreamDiffers string
}

// plain is the configuration of a cluster without extras.
const plain = `
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
`

// volumeBinders are the plugins that bind volumes. Each has behaviours with claims bind them.
var volumeBinders = map[string]func() func(behaviour) behaviour{
	predicates.PluginName: func() func(behaviour) behaviour { return func(b behaviour) behaviour { return b } },
	volumebinding.Name:    withVolumeBinding,
}

// withVolumeBinding gives behaviours a plugin that keeps what it holds from session to session. Their confs are as config makes them
// of those that name the plugin.
func withVolumeBinding() func(behaviour) behaviour {
	spec := volumebinding.Spec()
	return func(b behaviour) behaviour {
		const named = "  - name: predicates\n"
		b.conf = strings.Replace(stdcmp.Or(b.conf, plain), named, named+"    arguments: {predicate.VolumeBindingEnable: false}\n  - name: volumebinding\n", 1)
		b.plugins = append(slices.Clone(b.plugins), spec)
		return b
	}
}

// bindingVolumes runs a test of claims with each plugin that binds them.
func bindingVolumes(t *testing.T, test func(t *testing.T, bound func(behaviour) behaviour)) {
	t.Helper()
	for name, with := range volumeBinders {
		t.Run(name, func(t *testing.T) { test(t, with()) })
	}
}

func runTable(t *testing.T, cases map[string]behaviour) {
	t.Helper()
	shared := sessiontest.New(sessiontest.ClusterSpec{}) // a cluster of one's own takes 100 ms to start
	defer shared.Close()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, act := range implementations {
				if act.name == upstream.name && tc.upstreamDiffers != "" {
					continue
				}
				t.Run(act.name, func(t *testing.T) {
					cluster := shared
					if len(tc.world.Objects) > 0 {
						cluster = sessiontest.New(tc.world)
						defer cluster.Close()
					} else {
						cluster.Load(tc.world)
					}
					tc.run(t, cluster, act)
				})
			}
		})
	}
}

func (b behaviour) run(t *testing.T, cluster *sessiontest.Cluster, act implementation) {
	if b.prepare != nil {
		b.prepare(cluster)
	}
	ssn := b.open(cluster, act)
	defer ssn.Close()

	match(t, "bound", b.binds, ssn.Binds())
	match(t, "pipelined", b.pipelined, ssn.Pipelined())
	if evicts := ssn.Evicts(); len(evicts) > 0 {
		t.Errorf("evicted %v; allocate evicts nothing", evicts)
	}
	for _, pods := range b.together {
		racks := map[string][]string{}
		for _, pod := range pods {
			rack := rackOf(placed(ssn)[schedtest.Namespace+"/"+pod])
			racks[rack] = append(racks[rack], pod)
		}
		if len(racks) != 1 {
			t.Errorf("pods by rack: %v, want all in one", racks)
		}
	}
	checkStatuses(t, ssn, act)
	if t.Failed() {
		for _, job := range ssn.Jobs {
			for uid, errs := range job.NodesFitErrors {
				t.Logf("%s: %v", uid, errs.Error())
			}
		}
	}
	if b.check != nil {
		b.check(t, ssn)
	}
}

// open opens a session on the cluster and runs the action in it.
func (b behaviour) open(cluster *sessiontest.Cluster, act implementation) *sessiontest.Session {
	ssn, actions := b.ready(cluster, act)
	ssn.Run(actions...)
	return ssn
}

// ready opens a session on the cluster; the actions are to be run.
func (b behaviour) ready(cluster *sessiontest.Cluster, act implementation) (*sessiontest.Session, []vcframework.Action) {
	registry := framework.NewRegistry()
	for _, plugin := range b.plugins {
		registry.RegisterPlugin(plugin)
	}
	actions := []vcframework.Action{act.make(registry)}
	if b.enqueue {
		actions = append([]vcframework.Action{idle("enqueue")}, actions...)
	}
	return cluster.Open(registry, stdcmp.Or(b.conf, plain)), actions
}

// idle is an action that does nothing.
type idle string

func (i idle) Name() string               { return string(i) }
func (idle) Initialize()                  {}
func (idle) UnInitialize()                {}
func (idle) Execute(*vcframework.Session) {}

// match compares the nodes of pods, by "namespace/name", with what a behaviour wants, by name.
func match(t *testing.T, what string, want map[string]string, got map[string]string) {
	t.Helper()
	expected := map[string]string{}
	for pod, nodes := range want {
		if !strings.Contains(pod, "/") {
			pod = schedtest.Namespace + "/" + pod
		}
		node, ok := got[pod]
		if ok && (nodes == "*" || slices.Contains(strings.Split(nodes, "|"), node)) {
			nodes = node
		}
		expected[pod] = nodes
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// checkStatuses holds the tasks' statuses against what was handed over: bound pods are Binding, and nothing is left
// Allocated but by a gang that waits for room. Upstream leaves the node's name in the pods of a trial it drops.
func checkStatuses(t *testing.T, ssn *sessiontest.Session, act implementation) {
	t.Helper()
	binds := ssn.Binds()
	for _, job := range ssn.Jobs {
		waits := len(job.TaskStatusIndex[api.Pipelined]) > 0
		for _, task := range job.Tasks {
			node, bound := binds[task.Namespace+"/"+task.Name]
			switch {
			case bound && (task.Status != api.Binding || task.NodeName != node):
				t.Errorf("task %s is %s on %q, want Binding on %s, where it was handed over to be bound", task.Name, task.Status, task.NodeName, node)
			case !bound && (task.Status == api.Binding || task.Status == api.Allocated && !waits):
				t.Errorf("task %s is %s on %q without having been handed over", task.Name, task.Status, task.NodeName)
			case task.Status == api.Pending && (task.NodeName != "" || task.Pod.Spec.NodeName != "" && act.name != upstream.name):
				t.Errorf("task %s is pending and has node %q, its pod node %q", task.Name, task.NodeName, task.Pod.Spec.NodeName)
			}
		}
	}
}

// placed are the nodes of all pods that have one, whether handed over, waiting or there before.
func placed(ssn *sessiontest.Session) map[string]string {
	nodes := map[string]string{}
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			if task.NodeName != "" {
				nodes[task.Namespace+"/"+task.Name] = task.NodeName
			}
		}
	}
	return nodes
}

// rackOf is the rack of a node: "a1" is in rack "a".
func rackOf(node string) string { return strings.TrimRight(node, "0123456789") }

// perRack counts the bound pods by rack, most first.
func perRack(ssn *sessiontest.Session) []int {
	racks := map[string]int{}
	for _, node := range ssn.Binds() {
		racks[rackOf(node)]++
	}
	counts := slices.Sorted(maps.Values(racks))
	slices.Reverse(counts)
	return counts
}

// each builds pods that differ in their names.
func each(pod *schedtest.PodBuilder, names ...string) []*v1.Pod {
	var pods []*v1.Pod
	for _, name := range names {
		pods = append(pods, pod.Name(name).Obj())
	}
	return pods
}

// nodes builds nodes that differ in their names.
func nodes(node *schedtest.NodeBuilder, names ...string) []*v1.Node {
	var list []*v1.Node
	for _, name := range names {
		list = append(list, node.Name(name).Obj())
	}
	return list
}

// cores is a request or a capacity of whole cpus; a capacity also holds pods.
func cores(n string) schedtest.Resources { return schedtest.Resources{"cpu": n} }

func holds(cpu string) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": cpu, "pods": "20"})
}
