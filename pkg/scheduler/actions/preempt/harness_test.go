// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/dynamicresources"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"

	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

var began = time.Now()

const tiers = `
actions: allocate, preempt
configurations:
- name: preempt
  arguments: {delay: 0s%s}
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: ibcluster
  - name: predicates
  - name: network-topology-aware
  - name: proportion
  - name: nodeorder
`

// gang describes the pods of a gang: their number, the gang's minimum and priority, the cpu of each, and the nodes of
// running members.
type gang struct {
	name     string
	min      int
	priority int32
	cpu      string
	on       []string
	pending  int
	// age is how long the running pods have been running.
	age time.Duration
	// never reports whether the pods must not preempt.
	never       bool
	queue       string
	annotations map[string]string
	pod         func(*schedtest.PodBuilder)
}

func world(nodes map[string]string, gangs ...gang) sessiontest.ClusterSpec {
	var w sessiontest.ClusterSpec
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Label("name", name).Capacity(schedtest.Resources{"cpu": nodes[name], "pods": "20"}).Obj())
	}
	priorities := map[int32]bool{}
	for _, g := range gangs {
		class := fmt.Sprintf("p%d", g.priority)
		priorities[g.priority] = true
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(g.name).MinMember(int32(g.min)).PriorityClass(class).Obj())
		if g.annotations != nil {
			w.PodGroups[len(w.PodGroups)-1].Annotations = g.annotations
		}
		if g.queue != "" {
			w.PodGroups[len(w.PodGroups)-1].Spec.Queue = g.queue
		}
		for i := range len(g.on) + g.pending {
			pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", g.name, i)).Group(g.name).Priority(g.priority).Req(schedtest.Resources{"cpu": g.cpu})
			if g.pod != nil {
				g.pod(pod)
			}
			obj := pod.Obj()
			if g.never {
				never := v1.PreemptNever
				obj.Spec.PreemptionPolicy = &never
			}
			if i < len(g.on) {
				obj = pod.Node(g.on[i]).Phase(v1.PodRunning).Obj()
				started := metav1.NewTime(began.Add(-g.age))
				obj.Status.StartTime = &started
			}
			w.Pods = append(w.Pods, obj)
		}
	}
	for p := range priorities {
		w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(fmt.Sprintf("p%d", p), p))
	}
	return w
}

// outcome is what a session did: the evicted and the bound pods, the nodes of the members that wait for evicted pods, and
// the reason of each gang that waits.
type outcome struct {
	evicted   []string
	protected []string // the evicted pods about which the API server is asked
	bound     []string
	pipelined map[string]string
	reasons   map[string]string
	// nodes and devices are the nodes and the device annotations of the bound pods.
	nodes, devices map[string]string
}

// cluster is a cluster on which sessions run allocate and preempt, one after the other.
type cluster struct {
	*sessiontest.Cluster
	registry  *framework.Registry
	scheduler *sessiontest.Scheduler
	actions   []vcframework.Action
	action    *Action
}

// newCluster returns a cluster with the configuration.
func newCluster(w sessiontest.ClusterSpec, conf string) *cluster {
	return newClusterOf(w, conf, New(nil))
}

// newLiveCluster returns a cluster whose sessions get unchanged JobInfos and NodeInfos again, as in production.
func newLiveCluster(w sessiontest.ClusterSpec, conf string) *cluster {
	c := newCluster(sessiontest.ClusterSpec{}, conf)
	c.UseBooks(true)
	c.Load(w)
	return c
}

// showChanges shows the objects in which the specs of the cluster differ.
func (c *cluster) showChanges(before, after sessiontest.ClusterSpec) {
	showNew(c, before.PriorityClasses, after.PriorityClasses)
	showNew(c, before.Queues, after.Queues)
	showNew(c, before.Nodes, after.Nodes)
	showNew(c, before.PodGroups, after.PodGroups)
	showNew(c, before.Pods, after.Pods)
}

func showNew[T runtime.Object](c *cluster, before, after []T) {
	for _, object := range after {
		if !slices.ContainsFunc(before, func(old T) bool { return reflect.DeepEqual(old, object) }) {
			c.Show(object)
		}
	}
}

// newClusterOf returns a cluster in whose sessions allocate and then the actions run.
func newClusterOf(w sessiontest.ClusterSpec, conf string, actions ...*Action) *cluster {
	registry := framework.NewRegistry()
	c := &cluster{Cluster: sessiontest.New(w), registry: registry, action: actions[0]}
	registry.RegisterPlugin(evictionbackoff.Spec())
	registry.RegisterPlugin(ibcluster.Spec())
	registry.RegisterPlugin(coscheduling.Spec())
	registry.RegisterPlugin(deviceshare.Spec())
	registry.RegisterPlugin(dynamicresources.Spec())
	registry.RegisterPlugin(volumebinding.Spec())
	registry.RegisterAction(allocate.New())
	names := []string{"allocate"}
	for _, action := range actions {
		registry.RegisterAction(action)
		names = append(names, action.Name())
	}
	c.scheduler = c.Scheduler(registry, conf)
	for _, name := range names {
		action, _ := vcframework.GetAction(name)
		c.actions = append(c.actions, action)
	}
	return c
}

func (c *cluster) close() {
	c.scheduler.Close()
	c.Close()
}

// session runs a session.
func (c *cluster) session() outcome {
	ssn := c.scheduler.Open()
	ssn.Run(c.actions...)
	out := outcome{pipelined: map[string]string{}, reasons: map[string]string{}, nodes: map[string]string{}, devices: map[string]string{}}
	for pod, node := range ssn.Pipelined() {
		out.pipelined[strings.TrimPrefix(pod, schedtest.Namespace+"/")] = node
	}
	for _, job := range ssn.Jobs {
		if reason, ok := ssn.PendingReason(job.UID); ok {
			out.reasons[job.Name] = reason.Message
		}
	}
	ssn.Close()
	for _, pod := range ssn.Evicts() {
		out.evicted = append(out.evicted, strings.TrimPrefix(pod, schedtest.Namespace+"/"))
	}
	slices.Sort(out.evicted)
	for _, pod := range sessiontest.Protected(ssn) {
		out.protected = append(out.protected, strings.TrimPrefix(pod, schedtest.Namespace+"/"))
	}
	for name, bind := range ssn.Handed() {
		name = strings.TrimPrefix(name, schedtest.Namespace+"/")
		out.bound = append(out.bound, name)
		out.nodes[name], out.devices[name] = bind.Node, bind.Decided[v1alpha1.DeviceAllocatedAnnotation]
	}
	slices.Sort(out.bound)
	return out
}

// run runs one session on a cluster. arguments are further arguments of the action.
func run(t *testing.T, w sessiontest.ClusterSpec, arguments string) outcome {
	t.Helper()
	return runWith(t, w, fmt.Sprintf(tiers, arguments))
}

func runWith(t *testing.T, w sessiontest.ClusterSpec, conf string) outcome {
	t.Helper()
	c := newCluster(w, strings.Replace(conf, "%s", "", 1))
	defer c.close()
	return c.session()
}

func nodesOf(n int, cpu string) map[string]string {
	nodes := map[string]string{}
	for i := range n {
		nodes[fmt.Sprintf("n%d", i)] = cpu
	}
	return nodes
}
