// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// newGroup returns sessions of a cluster with these nodes and a gang group of two gangs, ns/a and ns/b. a and b are the
// CPU requests of the gangs' members.
func newGroup(t *testing.T, a, b []string, nodes ...*v1.Node) *counting {
	t.Helper()
	w := sessiontest.ClusterSpec{Nodes: nodes}
	for i, requests := range [][]string{a, b} {
		pods, podGroup := gang([]string{"a", "b"}[i], requests...)
		podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["ns/a","ns/b"]`}
		w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	}
	c := newCounting(t, w)
	c.conf = strings.Replace(withClusters, "- name: gang\n", "- name: gang\n  - name: coscheduling\n  - name: capacity\n", 1)
	c.registry.RegisterPlugin(coscheduling.Spec())
	return c
}

// look runs the action in a session, and calls at before the session closes.
func (c *counting) look(at func(ssn *sessiontest.Session)) {
	c.cluster.Load(c.world)
	ssn := c.cluster.Open(c.registry, c.conf)
	defer ssn.Close()
	ssn.Run(c.action)
	at(ssn)
}

// expect runs a session and checks the number of bound pods.
func (c *counting) expect(t *testing.T, when string, want int) {
	t.Helper()
	if _, bound := c.session(); bound != want {
		t.Errorf("%s: %d were bound, want %d: %s", when, bound, want, c.says)
	}
}

// TestAWholeGroupWaitsForReleasingResources checks that a whole gang group waits for releasing resources, including
// the gang that has room now.
func TestAWholeGroupWaitsForReleasingResources(t *testing.T) {
	c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Terminating().Obj())
	c.look(func(ssn *sessiontest.Session) {
		if len(ssn.Binds()) > 0 || len(ssn.Pipelined()) != 1 {
			t.Errorf("bound %v, waiting %v, want none bound and one waiting", ssn.Binds(), ssn.Pipelined())
		}
		if got := len(ssn.Jobs["ns/a"].TaskStatusIndex[api.Allocated]) + len(ssn.Jobs["ns/b"].TaskStatusIndex[api.Allocated]); got != 1 {
			t.Errorf("%d members hold idle resources for the session, want 1", got)
		}
	})
	c.world.Pods = c.world.Pods[:2]
	c.expect(t, "all is released", 2)
}

// TestAGroupIsTriedAgainWhenAQueueTakesIt checks that a gang group is tried again when the limit of a gang's queue is
// raised. The limit is not part of the group's cached result.
func TestAGroupIsTriedAgainWhenAQueueTakesIt(t *testing.T) {
	c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	c.world.PodGroups[1].Spec.Queue = "small"
	small := func(cpu string) []*v1beta1.Queue {
		return []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": cpu}).Obj()}
	}
	c.world.Queues = small("2")
	c.expect(t, "its second gang's queue has too little", 0)
	c.expect(t, "nothing has changed", 0)
	c.world.Queues = small("8")
	c.expect(t, "the queue has enough", 2)
}

// TestAGroupWaitsForTheQueueOfEachGang checks that a gang group waits for the queue of each gang. One of the queues
// is above its share.
func TestAGroupWaitsForTheQueueOfEachGang(t *testing.T) {
	for _, at := range []int{0, 1} {
		c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
		c.world.PodGroups[at].Spec.Queue = "over"
		c.world.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("over").Obj()}
		c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
		over := true
		c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper",
			Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
				return helper{reads: framework.SomePodKeys(), open: func(ssn *framework.Session) {
					ssn.AddOverusedFn("helper", func(queue any) bool { return over && queue.(*api.QueueInfo).Name == "over" })
				}}, nil
			})})
		c.look(func(ssn *sessiontest.Session) {
			other := ssn.Jobs[[]api.JobID{"ns/b", "ns/a"}[at]]
			if len(ssn.Binds()) > 0 || !strings.Contains(other.JobFitErrors, "queue over is at its limit") {
				t.Errorf("bound %v, the other gang's message is %q, want none bound, and a message about the queue", ssn.Binds(), other.JobFitErrors)
			}
		})
		over = false
		c.expect(t, "the queue is no longer over its share", 2)
	}
}

// TestASearchForAGroupThatWasCutShortIsNotRemembered checks that a failed search for a gang group is not cached if it
// ended early for lack of steps. Gang a takes the only node of b unless b is placed first, and the search needs steps
// to try that order.
func TestASearchForAGroupThatWasCutShortIsNotRemembered(t *testing.T) {
	c := newGroup(t, []string{"4"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-b", "5"))
	c.world.Pods[1].Spec.NodeSelector = map[string]string{"ibcluster": "ib-a"}
	c.conf += "  - name: binpack\n    arguments: {binpack.weight: 10}\n" // Binpack prefers the fuller node.
	noSteps := true
	c.registry.RegisterAction(stepless{allocate.New(), &noSteps})
	c.action, _ = vcframework.GetAction("allocate")
	c.expect(t, "no steps are left", 0)
	if !strings.Contains(c.says, "members fit") {
		t.Errorf("without steps the group's message is %q, want the missing resources", c.says)
	}
	noSteps = false
	c.expect(t, "there are steps", 2)
}

// TestAGroupIsTriedAgainWhenSomethingChanges checks that a gang group is tried again when a node, the releasing
// resources or the configuration change.
func TestAGroupIsTriedAgainWhenSomethingChanges(t *testing.T) {
	leaves := func() *v1.Pod {
		return schedtest.MakePod().Name("leaves").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Obj()
	}
	c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	c.world.Pods = append(c.world.Pods, leaves())
	c.expect(t, "a pod fills the second node", 0)
	if placed, _ := c.session(); placed != 0 {
		t.Errorf("%d were placed in trials though nothing has changed", placed)
	}
	c.world.Pods[2] = leaves()
	c.world.Pods[2].DeletionTimestamp = &schedtest.Created
	c.look(func(ssn *sessiontest.Session) {
		if len(ssn.Pipelined()) != 1 {
			t.Errorf("%v wait for releasing resources, want one", ssn.Pipelined())
		}
	})
	c.world.Pods = c.world.Pods[:2]
	c.expect(t, "the pod has gone", 2)
}

// TestAGangIsTriedAgainWhenTheConfChanges checks that a gang is tried again when the configuration changes, since
// filter results depend on it.
func TestAGangIsTriedAgainWhenTheConfChanges(t *testing.T) {
	for _, lies := range []func(*v1beta1.PodGroup){inOneCluster, func(*v1beta1.PodGroup) {}} {
		pods, podGroup := gang("g", "3", "2", "2")
		lies(podGroup)
		for _, pod := range pods {
			pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}
		c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
		c.expect(t, "no node has the label", 0)
		c.conf = strings.Replace(c.conf, "- name: predicates\n", "- name: predicates\n    arguments: {predicate.NodeAffinityEnable: false}\n", 1)
		c.expect(t, "labels do not matter", 3)
	}
}

// TestAGangThatOnlyPrefersGroupsIsTriedAgainForANodeInNone checks that a gang with a preferred topology is tried
// again for a node in no node group, since it may also use that node.
func TestAGangThatOnlyPrefersGroupsIsTriedAgainForANodeInNone(t *testing.T) {
	pods, podGroup := gang("g", "3", "2", "2")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "preferred"}
	outside := node("outside", "", "9")
	delete(outside.Labels, "ibcluster")
	outside.Spec.Unschedulable = true
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "4"), outside}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.expect(t, "the node in no group is cordoned", 0)
	outside = outside.DeepCopy()
	outside.Spec.Unschedulable = false
	c.world.Nodes[1] = outside
	c.expect(t, "the node in no group is open", 3)
}
