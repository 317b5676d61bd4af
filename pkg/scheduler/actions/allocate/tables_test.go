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

// The tables describe the observable behaviour of the action: clusters and the required placements, for this
// project's action, for upstream's where both agree, and for upstream's defects.

// implementation is an implementation of allocate under test.
type implementation struct {
	name string
	// make returns the action for one session of the registry.
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

// behaviour is a cluster and the required result of one run of allocate.
type behaviour struct {
	world sessiontest.ClusterSpec
	// conf is the scheduler's configuration. An empty conf means plain.
	conf string
	// plugins are the test's own plugins, which the configuration names.
	plugins []framework.PluginSpec
	// prepare changes the cluster before the session opens.
	prepare func(*sessiontest.Cluster)
	// enqueue reports whether the enqueue action is configured too. It does nothing.
	enqueue bool

	// binds is the node of every pod that must be bound, by pod name. Where the choice is random, "|" separates
	// alternatives, and "*" is any node.
	binds map[string]string
	// pipelined is the same for pods that wait for releasing resources.
	pipelined map[string]string
	// together lists pods that must be in one rack.
	together [][]string
	// check, if not nil, checks what the other fields cannot express.
	check func(*testing.T, *sessiontest.Session)
	// upstreamDiffers is the reason why upstream's action has another result. It is empty if the result is the same.
	upstreamDiffers string
}

// plain is the configuration of a cluster without extra plugins.
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

// volumeBinders are the plugins that bind volumes. Each has a function that makes behaviours with claims use it.
var volumeBinders = map[string]func() func(behaviour) behaviour{
	predicates.PluginName: func() func(behaviour) behaviour { return func(b behaviour) behaviour { return b } },
	volumebinding.Name:    withVolumeBinding,
}

// withVolumeBinding returns a function that makes behaviours use plugin volumebinding, with one state for all
// sessions. It changes their configurations as package config does when the plugin is named.
func withVolumeBinding() func(behaviour) behaviour {
	spec := volumebinding.Spec()
	return func(b behaviour) behaviour {
		const named = "  - name: predicates\n"
		b.conf = strings.Replace(stdcmp.Or(b.conf, plain), named, named+"    arguments: {predicate.VolumeBindingEnable: false}\n  - name: volumebinding\n", 1)
		b.plugins = append(slices.Clone(b.plugins), spec)
		return b
	}
}

// bindingVolumes runs a test of claims with each plugin that binds volumes.
func bindingVolumes(t *testing.T, test func(t *testing.T, bound func(behaviour) behaviour)) {
	t.Helper()
	for name, with := range volumeBinders {
		t.Run(name, func(t *testing.T) { test(t, with()) })
	}
}

func runTable(t *testing.T, cases map[string]behaviour) {
	t.Helper()
	shared := sessiontest.New(sessiontest.ClusterSpec{}) // A separate cluster takes 100 ms to start.
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

// ready opens a session on the cluster. The caller runs the returned actions.
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

// match compares the nodes of pods, by "namespace/name", with the nodes that a behaviour requires, by name.
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

// checkStatuses checks the tasks' statuses against the committed tasks: bound pods are Binding, and only tasks of a
// gang that waits for resources are Allocated. Upstream leaves the node's name in the pods of a dropped trial.
func checkStatuses(t *testing.T, ssn *sessiontest.Session, act implementation) {
	t.Helper()
	binds := ssn.Binds()
	for _, job := range ssn.Jobs {
		waits := len(job.TaskStatusIndex[api.Pipelined]) > 0
		for _, task := range job.Tasks {
			node, bound := binds[task.Namespace+"/"+task.Name]
			switch {
			case bound && (task.Status != api.Binding || task.NodeName != node):
				t.Errorf("task %s is %s on %q, want Binding on %s, where it was committed", task.Name, task.Status, task.NodeName, node)
			case !bound && (task.Status == api.Binding || task.Status == api.Allocated && !waits):
				t.Errorf("task %s is %s on %q without a commit", task.Name, task.Status, task.NodeName)
			case task.Status == api.Pending && (task.NodeName != "" || task.Pod.Spec.NodeName != "" && act.name != upstream.name):
				t.Errorf("task %s is pending and has node %q, its pod node %q", task.Name, task.NodeName, task.Pod.Spec.NodeName)
			}
		}
	}
}

// placed returns the nodes of all pods that have one: bound in this session, pipelined, or running before it.
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

// rackOf returns the rack of a node: "a1" is in rack "a".
func rackOf(node string) string { return strings.TrimRight(node, "0123456789") }

// perRack returns the numbers of bound pods per rack, largest first.
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

// cores returns a request or a capacity of whole CPUs. A capacity also holds pods.
func cores(n string) schedtest.Resources { return schedtest.Resources{"cpu": n} }

func holds(cpu string) *schedtest.NodeBuilder {
	return schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": cpu, "pods": "20"})
}
