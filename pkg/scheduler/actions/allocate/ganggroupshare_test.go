// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// elastic sets the minimum of both gangs to one member. The pods at the given indices run, and count as members.
func (c *counting) elastic(runs ...int) {
	for _, podGroup := range c.world.PodGroups {
		podGroup.Spec.MinMember = 1
		podGroup.Annotations[gangs.MatchPolicyAnnotation] = string(gangs.WaitingAndRunning)
	}
	for _, i := range runs {
		c.world.Pods[i].Spec.NodeName, c.world.Pods[i].Status.Phase = "n1", v1.PodRunning
	}
}

// TestMembersBeyondTheMinimaOfAGroupFollow checks that members beyond the minima of a gang group are placed when all
// of its gangs are ready.
func TestMembersBeyondTheMinimaOfAGroupFollow(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"1", "1"}, node("n1", "ib-a", "4"))
	c.elastic(0, 1)
	c.expect(t, "both gangs are ready", 1)
}

// TestAReadyGangDoesNotHoldItsGroupBack checks that a ready gang does not hold back its group. Its member beyond the
// minimum fits nowhere, which does not concern the other gang.
func TestAReadyGangDoesNotHoldItsGroupBack(t *testing.T) {
	c := newGroup(t, []string{"1", "99"}, []string{"1"}, node("n1", "ib-a", "4"))
	c.elastic(0)
	c.expect(t, "one gang is ready", 1)
	c = newGroup(t, []string{"1"}, []string{"99"}, node("n1", "ib-a", "4"))
	c.elastic(0)
	c.look(func(ssn *sessiontest.Session) {
		if a, b := ssn.Jobs["ns/a"].JobFitErrors, ssn.Jobs["ns/b"].JobFitErrors; a != "" || b == "" {
			t.Errorf("the message of the ready gang is %q, and that of the gang without room %q", a, b)
		}
	})
}

// TestAGroupWaitsForAGangThatIsReadyNoLonger checks that a group waits for a gang that is no longer ready: a plugin
// reports one gang ready only while the other is not placed.
func TestAGroupWaitsForAGangThatIsReadyNoLonger(t *testing.T) {
	c := newGroup(t, []string{"4"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return &sessiontest.Plugin{Called: "helper", Open: func(ssn *framework.Session) {
			ssn.Session.AddJobReadyFn("helper", func(job any) bool {
				return job.(*api.JobInfo).Name != "a" || len(ssn.Jobs["ns/b"].TaskStatusIndex[api.Allocated]) == 0
			})
		}}, nil
	})})
	c.expect(t, "one gang is not ready beside the other", 0)
}

// TestAGroupWaitsForANodeForAMemberWithoutRequests checks that a gang group waits for a node for a member without
// requests. Backfill cannot place it on a node that has its maximum number of pods, although one of them is
// terminating.
func TestAGroupWaitsForANodeForAMemberWithoutRequests(t *testing.T) {
	full := schedtest.MakeNode().Name("full").Capacity(schedtest.Resources{"cpu": "4", "pods": "1"}).Obj()
	c := newGroup(t, []string{"1"}, []string{"3"}, full, node("n1", "ib-a", "4"))
	withoutRequests := schedtest.MakePod().Name("a-0").Group("a").NodeSelector(v1.LabelHostname, "full").Obj()
	full.Labels[v1.LabelHostname] = "full"
	c.world.Pods[0] = withoutRequests
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("full").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Terminating().Obj())
	c.expect(t, "the node is full", 0)
	c.world.Pods = c.world.Pods[:2]
	c.expect(t, "the node has room", 1)
}

// TestAGangAloneDoesNotWaitForAMemberThatFitsNowhere checks that a single gang, unlike a gang group, does not wait
// for a member that fits nowhere if its other members reach its minimum.
func TestAGangAloneDoesNotWaitForAMemberThatFitsNowhere(t *testing.T) {
	c := newGroup(t, []string{"1", "1"}, nil, node("n1", "ib-a", "4"))
	c.elastic(0)
	a := c.world.PodGroups[0]
	a.Spec.MinMember = 2
	delete(a.Annotations, gangs.GroupsAnnotation)
	c.world.PodGroups = c.world.PodGroups[:1]
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("a-2").Group("a").NodeSelector("no", "where").Obj())
	c.expect(t, "one member fits nowhere", 1)
}

// TestWhyAGroupWaitsIsReportedInEachSession checks that each session reports why a gang group waits, on each gang and
// for each node group, without another trial.
func TestWhyAGroupWaitsIsReportedInEachSession(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"3", "3"}, node("n1", "ib-a", "4"), node("n2", "ib-b", "4")) // Their queue has room.
	c.world.Pods[0] = schedtest.MakePod().Name("a-0").Group("a").Obj()                                    // The pod has no requests.
	c.world.PodGroups[1].Annotations[ibcluster.ModeAnnotation] = "required"
	for i := range 3 {
		c.look(func(ssn *sessiontest.Session) {
			if got := ssn.Jobs["ns/a"].JobFitErrors; !strings.Contains(got, "gang ns/b does not fit") {
				t.Errorf("session %d: the message of the gang with room is %q", i, got)
			}
			if got := ssn.Jobs["ns/b"].JobFitErrors; got == "" || strings.Contains(got, "other gangs") {
				t.Errorf("session %d: the message of the gang that has no room even alone is %q", i, got)
			}
			if ssn.Explanation("") != nil {
				t.Errorf("session %d: no gang has an explanation", i)
			}
			if ssn.Explanation("ns/b") == nil {
				t.Errorf("session %d: the gang that has none does not say what its node groups lack", i)
			}
		})
	}
	c = newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"))
	for i := range 3 {
		if placed, _ := c.session(); placed > 0 != (i == 0) {
			t.Errorf("session %d places %d members in trials, want some in the first session only", i, placed)
		}
	}
}

// TestAGroupIsTriedAgainOnNodesThatOtherSchedulersLeave checks that a gang group is tried again when another
// scheduler's node moves to this scheduler's shard. With shards, results are not cached.
func TestAGroupIsTriedAgainOnNodesThatOtherSchedulersLeave(t *testing.T) {
	c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	for _, step := range []struct {
		nodes []string
		want  int
	}{{[]string{"n1"}, 0}, {[]string{"n1"}, 0}, {[]string{"n1", "n2"}, 2}} {
		c.world.Shard = &sessiontest.Shard{Mode: "hard", Nodes: step.nodes}
		c.expect(t, strings.Join(step.nodes, " and ")+" are ours", step.want)
	}
}

// newPacked returns a gang group that no order of its gangs can place: b needs the larger node and a the smaller one,
// but each spreads over both.
func newPacked(t *testing.T) *counting {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"))
	c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
	return c
}

// refusing registers a plugin that refuses to reserve for more than *most members of gang b on a node.
func (c *counting) refusing(most *int) {
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return helper{reads: framework.SomePodKeys(), open: func(ssn *framework.Session) {
				ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
					beside := 0
					for _, task := range ssn.Nodes[e.Task.NodeName].Tasks {
						if task.Job == "ns/b" {
							beside++
						}
					}
					if e.Task.Job == "ns/b" && beside > *most {
						e.Err = errors.New("no more")
					}
				}})
			}}, nil
		})})
}

// TestGangsOfAGroupThatShareNodesArePacked checks that the gangs of a group that share nodes are packed, and that all
// of them are released if a plugin refuses the plan.
func TestGangsOfAGroupThatShareNodesArePacked(t *testing.T) {
	most := 1
	c := newPacked(t)
	c.refusing(&most)
	pods, podGroup := gang("c", "6", "4")
	podGroup.CreationTimestamp.Time = schedtest.Created.AddDate(1, 0, 0) // It is scheduled after the group.
	c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
	c.look(func(ssn *sessiontest.Session) {
		if got := ssn.Binds(); len(got) != 2 || got["ns/c-0"] != "n1" || got["ns/c-1"] != "n2" {
			t.Errorf("bound %v, want the gang after the group, for which the nodes are free", got)
		}
	})
	most = 2
	c.expect(t, "no plugin refuses the plan", 4)
}

// TestAGroupWithAMemberWhosePrePredicateFailsIsNotPacked checks that a gang group is not packed while the pre-predicate
// of a member beyond the minima fails. Only a packing plan can place this group, and such plans include these members.
func TestAGroupWithAMemberWhosePrePredicateFailsIsNotPacked(t *testing.T) {
	c, failure := newPacked(t), error(nil)
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("b-2").Group("b").Req(schedtest.Resources{"cpu": "1"}).Obj())
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{open: func(ssn *framework.Session) {
			ssn.AddPrePredicateFn("helper", func(task *api.TaskInfo) error {
				if task.Name == "b-2" {
					return failure
				}
				return nil
			})
		}}, nil
	})})
	failure = errors.New("no")
	c.expect(t, "it fails", 0)
	failure = nil
	c.expect(t, "it succeeds in the next session", 4)
}

// TestAGroupIsTriedAgainWhenAGangAvoidsANode checks that a group is tried again when a gang avoids a node. Gang a
// spreads over both nodes and leaves no room for b, until it avoids the node that b needs. No packing supports pods
// with host ports.
func TestAGroupIsTriedAgainWhenAGangAvoidsANode(t *testing.T) {
	c, avoided := newPacked(t), []string(nil)
	for i, pod := range c.world.Pods {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(80 + i), ContainerPort: 80}}
	}
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{reads: framework.SomePodKeys(), open: nothing, part: sessiontest.AvoidNodesFn(func(job *api.JobInfo) []string {
			if job.UID == "ns/a" {
				return avoided
			}
			return nil
		})}, nil
	})})
	c.expect(t, "no gang avoids a node", 0)
	avoided = []string{"n1"}
	c.expect(t, "a avoids the larger node", 4)
}

// TestAGroupIsTriedAgainWhenAPluginReservesForIt checks that a gang group that waits because a plugin could not reserve
// for it is tried again in the next session. The cached result does not cover what a plugin can reserve.
func TestAGroupIsTriedAgainWhenAPluginReservesForIt(t *testing.T) {
	c, most := newPacked(t), 0
	c.refusing(&most)
	c.expect(t, "nothing is reserved for gang b", 0)
	most = 2
	c.expect(t, "a node is reserved for its members", 4)
}

// TestAPackedGangLiesInOneClusterThatIsRequired checks that a packed gang stays in one cluster if that is required.
// Beside the other gang, it has room in both clusters together and in neither alone. The filter of ibcluster, which
// would refuse nodes of a second cluster, is off.
func TestAPackedGangLiesInOneClusterThatIsRequired(t *testing.T) {
	c := newGroup(t, []string{"1", "2"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-b", "2"))
	c.conf = strings.Replace(c.conf, "- name: ibcluster\n", "- name: ibcluster\n    enablePredicate: false\n", 1)
	c.world.Pods[2].Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"}
	c.expect(t, "it may lie anywhere", 3)
	c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
	c.expect(t, "it must lie in one cluster", 0)
}

// packless runs the action. While noSteps is true, it does so as if other gangs had used up the session's packing
// steps.
type packless struct {
	*allocate.Action
	noSteps *bool
}

func (s packless) Execute(ssn *framework.Session) {
	if *s.noSteps {
		s.ExecuteWithoutPacking(ssn)
	} else {
		s.Action.Execute(ssn)
	}
}

// TestAPackingOfAGroupThatWasCutShortIsNotRemembered checks that a failed packing is not cached if other gangs had used
// up the search steps. In the next session, which has steps, the gang group is packed and bound.
func TestAPackingOfAGroupThatWasCutShortIsNotRemembered(t *testing.T) {
	all, noSteps := 2, true
	c := newPacked(t)
	c.refusing(&all)
	c.registry.RegisterAction(packless{allocate.New(), &noSteps})
	c.action, _ = vcframework.GetAction("allocate")
	c.expect(t, "no steps are left", 0)
	noSteps = false
	c.expect(t, "there are steps", 4)
}

// TestAGroupDoesNotWaitForAMemberThatFitsNowhere checks that a gang group does not wait for a best-effort member that
// fits nowhere if another member completes its gang's minimum. Upstream counts a pending best-effort member as ready.
func TestAGroupDoesNotWaitForAMemberThatFitsNowhere(t *testing.T) {
	for name, tt := range map[string]struct {
		asks string
		want int
	}{"the other member fits": {"1", 2}, "the other member fits nowhere": {"99", 0}} {
		t.Run(name, func(t *testing.T) {
			c := newGroup(t, []string{"1", tt.asks}, []string{"3"}, node("n1", "ib-a", "8"))
			c.elastic(0)
			c.world.PodGroups[0].Spec.MinMember = 2
			c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("a-2").Group("a").NodeSelector("no", "where").Obj())
			c.expect(t, name, tt.want)
		})
	}
}
