// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// newOrdered returns a gang group of gangs a and b. Gang a is larger, and prefers n1, the only node with idle room for
// b.
func newOrdered(t *testing.T, more ...*v1.Node) *counting {
	c := newGroup(t, []string{"4"}, []string{"3"}, append([]*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-b", "5")}, more...)...)
	c.world.Pods[1].Spec.NodeSelector = map[string]string{"ibcluster": "ib-a"}
	c.conf += "  - name: binpack\n    arguments: {binpack.weight: 10}\n" // Binpack prefers the fuller node.
	return c
}

// TestTheGangOfAGroupThatFoundNoRoomComesFirst checks that the gang of a group that found no room is placed first in
// the next trial. Host ports are not part of a packing problem, so no packing finds nodes for this gang.
func TestTheGangOfAGroupThatFoundNoRoomComesFirst(t *testing.T) {
	c := newOrdered(t)
	c.world.Pods[0].Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	c.expect(t, "b has room if it comes first", 2)
}

// TestAGroupWithRoomDoesNotWaitForReleasingResources checks that a gang group does not wait for releasing resources if
// another order of its gangs fits on idle ones. If gang a is placed first, b has to wait.
func TestAGroupWithRoomDoesNotWaitForReleasingResources(t *testing.T) {
	c := newOrdered(t, node("n3", "ib-a", "3"))
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("n3").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "3"}).Terminating().Obj())
	c.expect(t, "b has idle room if it comes first", 2)
}

// TestMembersOfAKindArePackedOnSeveralNodes checks that members of one task class are packed on several nodes: two
// members of b on n1, and one beside both members of a on n2.
func TestMembersOfAKindArePackedOnSeveralNodes(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "7"))
	c.expect(t, "all have room", 5)
}

// TestAGroupIsPackedWithoutMembersBeyondTheMinima checks that a group is packed without the members beyond the minima
// that fit no node.
func TestAGroupIsPackedWithoutMembersBeyondTheMinima(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"))
	c.world.PodGroups[1].Spec.MinMember = 2
	c.expect(t, "the minima have room", 4)
}

// TestMembersWithoutRequestsAreJudgedInTheTurnOfTheirGang checks that members without requests are filtered while
// their own gang is scheduled, so a panic quarantines that gang.
func TestMembersWithoutRequestsAreJudgedInTheTurnOfTheirGang(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"3"}, node("n1", "ib-a", "4"))
	c.world.Pods[0] = schedtest.MakePod().Name("a-0").Group("a").Obj()
	c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
	judged := 0
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return &sessiontest.Plugin{Called: "helper", Open: func(ssn *framework.Session) {
			ssn.AddPredicateFn("helper", func(task *api.TaskInfo, _ *api.NodeInfo) error {
				if judged++; c.registry.CurrentJob() != task.Job {
					t.Errorf("%s is judged in the turn of %q", task.Name, c.registry.CurrentJob())
				}
				return nil
			})
		}}, nil
	})})
	c.look(func(*sessiontest.Session) {})
	if judged < 2 {
		t.Errorf("the plugin is asked %d times, want at least once for each gang", judged)
	}
}

// TestGangGroupReportsMissingIdleResources checks that a gang group reports which gang does not fit on idle
// resources. With releasing resources, another gang would not fit.
func TestGangGroupReportsMissingIdleResources(t *testing.T) {
	c := newGroup(t, []string{"3"}, []string{"4", "4"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Terminating().Obj())
	c.conf = strings.Replace(c.conf, "  - name: capacity\n", "", 1)
	c.look(func(ssn *sessiontest.Session) {
		a, b := ssn.Jobs["ns/a"].JobFitErrors, ssn.Jobs["ns/b"].JobFitErrors
		if !strings.Contains(a, "gang ns/b does not fit") || !strings.Contains(b, "1/2 members fit") {
			t.Errorf("the gangs say %q and %q, want that b has no room, and why", a, b)
		}
	})
	c.world.Pods[3].DeletionTimestamp = nil
	c.world.Pods[1].Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"}
	c.world.Pods = append(c.world.Pods[:2], c.world.Pods[3])
	c.world.PodGroups[1].Spec.MinMember = 1
	c.look(func(ssn *sessiontest.Session) {
		a, b := ssn.Jobs["ns/a"].JobFitErrors, ssn.Jobs["ns/b"].JobFitErrors
		if !strings.HasPrefix(a, "does not fit beside 1 placed gang of its group: 0/1 members fit") || !strings.Contains(b, "gang ns/a does not fit: 0/1 members fit") {
			t.Errorf("the gangs' messages are %q and %q, want why a, which is tried after the larger b, finds no room", a, b)
		}
	})
}

// TestGangGroupReportsBestEffortPodThatFitsNoNode checks that the message names a best-effort pod that fits no node.
// The gang of this pod has no other pod, and counts as ready.
func TestGangGroupReportsBestEffortPodThatFitsNoNode(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"1"}, node("n1", "ib-a", "4"))
	c.world.Pods[0] = schedtest.MakePod().Name("a-0").Group("a").NodeSelector("there", "is none").Obj()
	c.look(func(ssn *sessiontest.Session) {
		if says := ssn.Jobs["ns/b"].JobFitErrors; len(ssn.Binds()) > 0 || !strings.Contains(says, "gang ns/a cannot reach its minimum: best-effort pod a-0 ") {
			t.Errorf("bound are %v, and the other gang's message is %q, want that pod a-0 fits nowhere", ssn.Binds(), says)
		}
	})
}

// TestGangsThatShareNodesArePackedInTheirCluster checks that gangs that share nodes are packed in their cluster,
// which is required and has the room.
func TestGangsThatShareNodesArePackedInTheirCluster(t *testing.T) {
	most := 2
	c := newPacked(t)
	c.refusing(&most)
	for _, podGroup := range c.world.PodGroups {
		podGroup.Annotations[ibcluster.ModeAnnotation] = "required"
	}
	c.expect(t, "both must lie in one cluster", 4)
}
