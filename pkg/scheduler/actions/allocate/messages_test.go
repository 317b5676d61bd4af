// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// grouped adds a plugin that joins gang a and the other gang, which need not exist, in a gang group.
func (c *counting) grouped(other api.JobID, open func(*framework.Session)) {
	c.conf = strings.Replace(c.conf, "  - name: coscheduling\n", "", 1)
	gangGroup := &binding.GangGroup{ID: "ns/a," + string(other), Gangs: []binding.GangTerms{{Gang: "ns/a"}, {Gang: other}}}
	c.helped(open, sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
		if job.UID == "ns/a" || job.UID == other {
			return gangGroup
		}
		return nil
	}))
}

// TestMessages compares the messages of this action, its searches and its trials that users read on PodGroups.
// Package explain tests the numbers of members and nodes in them.
func TestMessages(t *testing.T) {
	got := map[string]string{}
	// pair returns the gang group of a and b, with one pod each and one 4-CPU node.
	pair := func(a, b string) *counting { return newGroup(t, []string{a}, []string{b}, node("n1", "ib-a", "4")) }
	look := func(name string, c *counting, before ...vcframework.Action) {
		c.cluster.Load(c.world)
		ssn := c.cluster.Open(c.registry, c.conf)
		defer ssn.Close()
		ssn.Run(append(before, c.action)...)
		if len(ssn.Binds()) > 0 {
			t.Errorf("%s: bound are %v", name, ssn.Binds())
		}
		got[name+", on gang a"] = ssn.Jobs["ns/a"].JobFitErrors
		if b := ssn.Jobs["ns/b"]; b != nil && b.JobFitErrors != "" {
			got[name+", on gang b"] = b.JobFitErrors
		}
	}

	c := pair("1", "1")
	c.grouped("ns/none", nothing)
	c.world.PodGroups, c.world.Pods = c.world.PodGroups[:1], c.world.Pods[:1]
	look("gang b does not exist", c)

	c = pair("1", "1")
	c.grouped("ns/b", nothing)
	c.world.Pods[1].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
	look("the pod of gang b has a gate", c)

	c = pair("1", "1")
	c.grouped("ns/b", func(ssn *framework.Session) {
		ssn.AddJobEnqueueableFn("helper", func(any) int { return util.Reject })
	})
	c.world.PodGroups[1].Status.Phase = v1beta1.PodGroupPending
	c.world.PodGroups[1].Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")} // Otherwise the gang is admitted.
	look("gang b is not admitted", c, enqueue.New())

	c = pair("1", "1")
	c.grouped("ns/b", func(ssn *framework.Session) {
		ssn.AddJobValidFn("helper", func(job any) *api.ValidateResult {
			if job.(*api.JobInfo).UID != "ns/b" {
				return nil
			}
			return &api.ValidateResult{Reason: "NotNow", Message: "the licence has expired"}
		})
	})
	look("a plugin refuses gang b", c)

	c = pair("1", "1")
	c.world.PodGroups[1].Spec.Queue = "over"
	c.world.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("over").Obj()}
	c.helped(func(ssn *framework.Session) {
		ssn.AddOverusedFn("helper", func(queue any) bool { return queue.(*api.QueueInfo).Name == "over" })
	})
	look("the queue of gang b is full", c)

	look("both have no room", pair("5", "5"))
	look("each has room, and both have not", pair("2", "3"))

	c = pair("1", "1")
	c.world.Pods[0] = schedtest.MakePod().Name("a-0").Group("a").NodeSelector("disk", "ssd").Obj()
	look("a pod without requests has no room", c)

	alone := func(cpus []string, nodes []*v1.Node, open func(*framework.Session), part ...any) *counting {
		pods, podGroup := gang("a", cpus...)
		c := newCounting(t, sessiontest.ClusterSpec{Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
		c.helped(open, part...)
		return c
	}
	three := func() *counting {
		c := alone([]string{"3", "3", "3"}, []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")}, nothing)
		c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Terminating().Obj())
		return c
	}
	refuses := func(ssn *framework.Session) {
		ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) { e.Err = errors.New("not here") }})
	}
	look("an event handler refuses a pod", alone([]string{"1"}, []*v1.Node{node("n1", "ib-a", "4")}, refuses))
	c = alone([]string{"1"}, []*v1.Node{node("n1", "ib-a", "4")}, nothing)
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return struct {
			helper
			refusingReserver
		}{helper{open: nothing, reads: framework.SomePodKeys()}, refusingReserver{"a-0"}}, nil
	})})
	look("a plugin cannot reserve", c)

	c = alone([]string{"1"}, []*v1.Node{node("n1", "ib-a", "4")}, func(ssn *framework.Session) { ssn.HyperNodesReadyToSchedule = false })
	c.world.PodGroups[0].Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.SoftNetworkTopologyMode}
	look("the HyperNodes are not read yet", c)

	registered(t, "broken")
	look("the node's devices fail", alone([]string{"1"}, []*v1.Node{node("n1", "ib-a", "4")}, func(ssn *framework.Session) {
		ssn.Nodes["n1"].Others["broken"] = broken{}
	}))

	planner := sessiontest.TopologyPlannerFn(func(*api.JobInfo) (*framework.TopologyPlanner, error) {
		return &framework.TopologyPlanner{On: func(slots map[string]int, _ int) framework.TopologyPlans { return onBoth{slots} },
			Compare: func(*api.TaskInfo, *api.TaskInfo) int { return 0 }}, nil
	})
	c = alone([]string{"3", "2"}, []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")}, refuses, planner)
	exhausted := true
	c.registry.RegisterAction(stepless{allocate.New(), &exhausted})
	c.action, _ = vcframework.GetAction("allocate")
	look("the search budget is exhausted", c)

	c = three()
	c.world.Shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n9"}}
	look("the nodes are outside of the shard", c)

	for name, cpus := range map[string][]string{"two pods without requests have no room": {"1", "1", "1"}, "three pods without requests have no room": {"1", "1", "1", "1"}} {
		c = alone(cpus, []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")}, nothing)
		for i, pod := range c.world.Pods[1:] {
			c.world.Pods[i+1] = schedtest.MakePod().Name(pod.Name).Group("a").NodeSelector("disk", "ssd").Obj()
		}
		look(name, c)
	}

	c = alone([]string{"1", "1"}, []*v1.Node{node("n1", "ib-a", "4")}, nothing)
	c.world.Pods[1] = schedtest.MakePod().Name("a-1").Group("a").Gate("example.com/mine").Obj()
	look("a pod without requests has a gate", c)

	const (
		together = "gang group ns/a,ns/b must be scheduled together; "
		large    = "0/1 members fit: 1 node short of cpu; a member requests more than any node has: cpu 5 of at most 4"
		share    = "queue default has no room in its share of the cluster (plugin capacity) for cpu 2: the queue uses cpu 3, the cluster has cpu 4"
		affinity = "best-effort pod a-0 fits on no node: 1 node didn't match Pod's node affinity/selector"
	)
	want := map[string]string{
		"gang b does not exist, on gang a":                    "gang group ns/a,ns/none must be scheduled together; gang ns/none does not exist",
		"the pod of gang b has a gate, on gang a":             together + "gang ns/b has too few pending pods to reach its minimum",
		"gang b is not admitted, on gang a":                   together + "gang ns/b is not admitted to its queue yet",
		"a plugin refuses gang b, on gang a":                  together + "gang ns/b cannot be scheduled: the licence has expired",
		"the queue of gang b is full, on gang a":              together + "gang ns/b cannot be scheduled: queue over is at its limit",
		"the queue of gang b is full, on gang b":              "queue over has used up its share of the cluster (plugin helper): the queue uses cpu 0, the cluster has cpu 4",
		"both have no room, on gang a":                        large,
		"both have no room, on gang b":                        together + "gang ns/a does not fit: " + large,
		"each has room, and both have not, on gang a":         "does not fit beside 1 placed gang of its group: " + share,
		"each has room, and both have not, on gang b":         together + "gang ns/a does not fit: " + share,
		"a pod without requests has no room, on gang a":       together + "gang ns/a cannot reach its minimum: " + affinity,
		"a pod without requests has no room, on gang b":       together + "gang ns/a cannot reach its minimum: " + affinity,
		"a pod without requests has a gate, on gang a":        "best-effort pod a-1 has a scheduling gate",
		"an event handler refuses a pod, on gang a":           "0/1 members fit: 1 node refused by a plugin after all filters accepted the node (the scheduler's log has the error)",
		"a plugin cannot reserve, on gang a":                  "0/1 members fit: 1 node refused by plugin helper: the licence server has none left",
		"the HyperNodes are not read yet, on gang a":          "waiting for HyperNodes: spec.networkTopology of the gang needs them, and the scheduler has not read all of them yet",
		"the node's devices fail, on gang a":                  "0/1 members fit: 1 node refused by the node's devices (broken); the scheduler's log has the error",
		"the nodes are outside of the shard, on gang a":       "0/3 members fit: 2 nodes outside of this scheduler's NodeShard",
		"two pods without requests have no room, on gang a":   "best-effort pod a-1 fits on no node: 2 nodes didn't match Pod's node affinity/selector (and 1 more such pod)",
		"three pods without requests have no room, on gang a": "best-effort pod a-1 fits on no node: 2 nodes didn't match Pod's node affinity/selector (and 2 more such pods)",
		"the search budget is exhausted, on gang a":           "search not finished: the search budget of this cycle is exhausted; retrying in a later cycle; 0/2 members fit",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfPods compares the messages that users read on pods of a gang that is not placed.
func TestMessagesOfPods(t *testing.T) {
	got := map[string]string{}
	var shard *sessiontest.Shard
	// look runs a session with a gang whose three pods share a role. first are the pods that a plugin places first.
	look := func(name string, minimum int32, cpu string, first promises, others ...*v1.Pod) {
		podGroups := []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(minimum).Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()}
		pods := append(each(schedtest.MakePod().Group("g").Role("worker").Req(cores(cpu)), "g-0", "g-1", "g-2"), others...)
		c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "4")}, Pods: pods, PodGroups: podGroups, Shard: shard})
		if first != nil {
			c.helped(nothing, first)
		}
		c.look(func(ssn *sessiontest.Session) {
			job := ssn.Jobs["ns/g"]
			got[name+", on the gang"] = job.JobFitErrors
			for uid, errs := range job.NodesFitErrors {
				got[name+", on pod "+job.Tasks[uid].Name] = errs.Error()
			}
		})
	}
	look("another pod of its role does not fit", 2, "3", nil)
	shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n9"}}
	look("its node is outside of the shard", 3, "1", nil)
	shard = nil
	look("another pod already waits for resources", 1, "1", promises{"g-0"}, leaving("n1", "4", "old-0")...)
	want := map[string]string{
		"another pod already waits for resources, on the gang": "0/1 members fit: 1 node without enough idle cpu until pods terminate",
		"another pod of its role does not fit, on the gang":    "1/2 members fit: 1 node filled by its members (cpu)",
		"its node is outside of the shard, on the gang":        "0/3 members fit: 1 node outside of this scheduler's NodeShard",
		"its node is outside of the shard, on pod g-0":         "0/1 nodes are unavailable: 1 node(s) outside of this scheduler's NodeShard.",
		"another pod of its role does not fit, on pod g-1":     "0/1 nodes are unavailable: 1 Insufficient cpu.",
		"another pod of its role does not fit, on pod g-2":     `another pod of role "worker" fits no node`,
		"another pod already waits for resources, on pod g-1":  "no node has enough free resources until pods terminate",
		"another pod already waits for resources, on pod g-2":  `another pod of role "worker" fits no node`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessageOfFurtherMembers compares the message when the minimum of the gang is placed and its queue is then at
// its limit.
func TestMessageOfFurtherMembers(t *testing.T) {
	pods, podGroup := gang("a", "1", "1")
	podGroup.Spec.MinMember = 1
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.helped(func(ssn *framework.Session) {
		ssn.AddOverusedFn("helper", func(any) bool { return len(ssn.Jobs["ns/a"].TaskStatusIndex[api.Pending]) < 2 })
	})
	c.look(func(ssn *sessiontest.Session) {
		reason, _ := ssn.PendingReason("ns/a")
		want := framework.PendingReason{Reason: framework.QueueFull, Message: "the minimum is placed, further members wait: queue default has used up its share of the cluster (plugin helper): " +
			"the queue uses cpu 1, the cluster has cpu 4"}
		if diff := cmp.Diff(want, reason); diff != "" {
			t.Errorf("reason (-want +got):\n%s", diff)
		}
	})
}
