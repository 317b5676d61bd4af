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

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAGroupWaitsForAGangThatMayLieNowhere checks that a gang group waits for a gang that may use no node, because a
// plugin refuses the gang's nodes in each session.
func TestAGroupWaitsForAGangThatMayLieNowhere(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"1"}, node("n1", "ib-a", "4"))
	refuses := "not here"
	c.helped(nothing, sessiontest.NodeGroupsFn(func(job *api.JobInfo) (*framework.NodeGroups, error) {
		if refuses != "" && job.UID == "ns/b" {
			return nil, errors.New(refuses)
		}
		return nil, nil
	}))
	for _, refuses = range []string{"not here", "nor there"} {
		c.look(func(ssn *sessiontest.Session) {
			a, _ := ssn.PendingReason("ns/a")
			b, _ := ssn.PendingReason("ns/b")
			if len(ssn.Binds()) > 0 || b.Reason != framework.NotEnoughResources || !strings.Contains(b.Message, "plugin helper: "+refuses) ||
				!strings.Contains(a.Message, "gang ns/b does not fit: plugin helper: "+refuses) {
				t.Errorf("bound %v, and the gangs wait for %v and %v, want none bound, and the plugin's reason", ssn.Binds(), a, b)
			}
		})
	}
	refuses = ""
	c.expect(t, "the plugin refuses it no longer", 2)
}

// TestAGangGroupWaitsForAGangThatIsNotToBePlaced checks that a gang group waits for a gang that must not be placed: a
// gang that is not admitted, or that a plugin reports invalid.
func TestAGangGroupWaitsForAGangThatIsNotToBePlaced(t *testing.T) {
	for name, tt := range map[string]struct {
		phase   v1beta1.PodGroupPhase
		invalid bool
		want    string
	}{
		"not admitted": {phase: v1beta1.PodGroupPending, want: "gang ns/b is not admitted to its queue yet"},
		"invalid":      {phase: v1beta1.PodGroupInqueue, invalid: true, want: "gang ns/b cannot be scheduled: why not"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGroup(t, []string{"1"}, []string{"1"}, node("n1", "ib-a", "4"))
			c.conf = strings.Replace(c.conf, "  - name: coscheduling\n", "", 1)
			c.world.PodGroups[1].Status.Phase = tt.phase
			c.world.PodGroups[1].Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")} // Without MinResources no plugin votes.
			gangGroup := &binding.GangGroup{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/a"}, {Gang: "ns/b"}}}
			c.helped(func(ssn *framework.Session) {
				ssn.AddJobValidFn("helper", func(obj any) *api.ValidateResult {
					if job, is := obj.(*api.JobInfo); is && job.UID == "ns/b" && tt.invalid {
						return &api.ValidateResult{Reason: "Why", Message: "why not"}
					}
					return nil
				})
			}, sessiontest.GangGroupFn(func(*api.JobInfo) *binding.GangGroup { return gangGroup }))
			c.cluster.Load(c.world)
			ssn := c.cluster.Open(c.registry, c.conf)
			defer ssn.Close()
			ssn.AddJobEnqueueableFn("helper", func(any) int { return util.Reject })
			ssn.Run(enqueue.New(), c.action)
			if got := ssn.Jobs["ns/a"].JobFitErrors; len(ssn.Binds()) > 0 || !strings.HasSuffix(got, tt.want) {
				t.Errorf("bound %v, and the gang's message is %q, want none bound, and %q", ssn.Binds(), got, tt.want)
			}
		})
	}
}

// TestMembersBeyondTheMinimaOfAPackedGroupFollow checks that a member beyond the minima of a packed group is placed on
// a node that accepts it only after the packed members are handed over. Each member is placed in its own gang's turn.
func TestMembersBeyondTheMinimaOfAPackedGroupFollow(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"), node("n3", "ib-a", "3"))
	c.world.PodGroups[1].Spec.MinMember = 2
	c.helped(func(ssn *framework.Session) {
		ssn.AddPredicateFn("helper", func(task *api.TaskInfo, node *api.NodeInfo) error {
			if node.Name == "n3" && (task.Job != "ns/b" || len(ssn.Jobs["ns/b"].TaskStatusIndex[api.Binding]) < 2) {
				return api.NewFitError(task, node, "it is not open yet")
			}
			return nil
		})
		ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
			if turn := c.registry.CurrentJob(); turn != e.Task.Job {
				t.Errorf("%s is placed in the turn of %s, whose panic that would be", e.Task.Name, turn)
			}
		}})
	}, sessiontest.Signer{Reads: framework.SomePodKeys(), Scope: func(task *api.TaskInfo) framework.CacheScope {
		if task.Name == "b-2" {
			return framework.Uncached
		}
		return framework.PerTaskClass
	}})
	c.look(func(ssn *sessiontest.Session) {
		want := map[string]string{"ns/a-0": "n2", "ns/a-1": "n2", "ns/b-0": "n1", "ns/b-1": "n1", "ns/b-2": "n3"}
		if diff := cmp.Diff(want, ssn.Binds()); diff != "" {
			t.Errorf("bound (-want +got):\n%s", diff)
		}
	})
}

// TestAGroupIsPackedWithoutAMemberAmongOthers checks that a gang group is packed without a member that fits no node.
func TestAGroupIsPackedWithoutAMemberAmongOthers(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "5", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"))
	c.world.PodGroups[1].Spec.MinMember = 2
	c.look(func(ssn *sessiontest.Session) {
		want := map[string]string{"ns/a-0": "n2", "ns/a-1": "n2", "ns/b-0": "n1", "ns/b-2": "n1"}
		if diff := cmp.Diff(want, ssn.Binds()); diff != "" {
			t.Errorf("bound (-want +got):\n%s", diff)
		}
	})
}

// TestGroupsArePackedWhereTheyMayLie checks that gang groups are packed only on the nodes of their cluster, however
// much room other nodes have.
func TestGroupsArePackedWhereTheyMayLie(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3"}, node("n0", "ib-0", "64"), node("n1", "ib-a", "6"), node("n2", "ib-a", "4"), node("n3", "ib-z", "64"))
	for _, i := range []int{1, 2} {
		c.world.Nodes[i].Labels["pool"] = "ours"
	}
	for _, podGroup := range c.world.PodGroups {
		podGroup.Annotations[ibcluster.ModeAnnotation] = "required"
	}
	for _, pod := range c.world.Pods {
		pod.Spec.NodeSelector = map[string]string{"pool": "ours"}
	}
	c.expect(t, "both have room in their cluster", 4)
}

// TestGroupsArePackedByDevicesToo checks that packing counts devices. By CPUs, both members of the second gang fit on
// n1 or on n2; by devices, they fit together on n2 only.
func TestGroupsArePackedByDevicesToo(t *testing.T) {
	c := newGroup(t, []string{"2", "2", "2", "2", "2"}, []string{"3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "6"), node("n3", "ib-a", "4"))
	for i, devices := range []string{"1", "2"} {
		for _, list := range []v1.ResourceList{c.world.Nodes[i].Status.Capacity, c.world.Nodes[i].Status.Allocatable} {
			list["nvidia.com/gpu"] = resource.MustParse(devices)
		}
	}
	for _, pod := range c.world.Pods[5:] {
		pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
	}
	c.expect(t, "all have room", 7)
}

// TestAGangWithoutRoomAloneEndsTheSearch checks that a gang that has no room alone ends the search for its group,
// since no other order helps.
func TestAGangWithoutRoomAloneEndsTheSearch(t *testing.T) {
	c := newGroup(t, []string{"99"}, []string{"1"}, node("n1", "ib-a", "4"))
	if placed, bound := c.session(); placed+bound > 0 {
		t.Errorf("%d members are placed in trials, and %d bound, want none", placed, bound)
	}
}
