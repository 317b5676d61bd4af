// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// helped adds the plugin helper, which calls open when a session opens. part is optional, and implements further
// interfaces of the plugin.
func (c *counting) helped(open func(ssn *framework.Session), part ...any) {
	c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return helper{open: open, part: one(part), reads: framework.SomePodKeys()}, nil
		})})
}

// TestAGangGroupWaitsForEachGangThatAPluginNames checks that a gang group waits for each gang that a plugin names, even
// for one that does not exist or whose pods have scheduling gates.
func TestAGangGroupWaitsForEachGangThatAPluginNames(t *testing.T) {
	for other, want := range map[api.JobID]string{"ns/none": "gang ns/none does not exist", "ns/b": "gang ns/b has too few pending pods"} {
		t.Run(string(other), func(t *testing.T) {
			c := newGroup(t, []string{"1"}, []string{"1"}, node("n1", "ib-a", "4"))
			c.conf = strings.Replace(c.conf, "  - name: coscheduling\n", "", 1)
			c.world.Pods[1].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
			gangGroup := &binding.GangGroup{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/a"}, {Gang: other}}}
			c.helped(nothing, sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
				if job.UID == "ns/a" || job.UID == other {
					return gangGroup
				}
				return nil
			}))
			c.look(func(ssn *sessiontest.Session) {
				if got := ssn.Jobs["ns/a"].JobFitErrors; len(ssn.Binds()) > 0 || !strings.Contains(got, want) {
					t.Errorf("bound %v, and the gang's message is %q, want none bound, and %q", ssn.Binds(), got, want)
				}
			})
		})
	}
}

// TestAGangThatWaitsGoesBeforeMoreMembersOfAGroup checks that a waiting gang is placed before further members of a gang
// group. Once the gangs of a group have their minima, gangs below their own minimum go before them.
func TestAGangThatWaitsGoesBeforeMoreMembersOfAGroup(t *testing.T) {
	c := newGroup(t, []string{"1"}, []string{"1", "1"}, node("n1", "ib-a", "3"))
	c.elastic()
	pods, podGroup := gang("c", "1")
	podGroup.CreationTimestamp = metav1.NewTime(schedtest.Created.AddDate(1, 0, 0))
	c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
	c.look(func(ssn *sessiontest.Session) {
		if got := ssn.Binds(); len(got) != 3 || got["ns/c-0"] == "" {
			t.Errorf("bound %v, want a member of each gang", got)
		}
	})
}

// TestAntiAffinityOfOthersIsPartOfTheCachedResult checks when the required anti-affinity of a running pod affects a
// cached result. After a change of a namespace's labels, a gang that fits nowhere is tried again only if the pod's term
// selects namespaces by label.
func TestAntiAffinityOfOthersIsPartOfTheCachedResult(t *testing.T) {
	tests := map[string]struct {
		namespaces *metav1.LabelSelector
		again      bool
	}{
		"of its namespace":             {},
		"of all namespaces":            {namespaces: &metav1.LabelSelector{}},
		"of namespaces with the label": {namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}, again: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"))
			runs := schedtest.MakePod().Name("runs").Node("n1").Phase(v1.PodRunning).Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}, TopologyKey: v1.LabelHostname,
					NamespaceSelector: tt.namespaces,
				}},
			}}).Obj()
			c.world.Pods = append(c.world.Pods, runs)
			c.labelNamespace("blue")
			for i, tried := range []bool{true, false, tt.again, false} {
				if i == 2 {
					c.labelNamespace("green")
				}
				if placed, _ := c.session(); (placed > 0) != tried {
					t.Errorf("session %d places %d members in trials, want some: %t", i, placed, tried)
				}
			}
		})
	}
}

// onBoth makes topology plans that put one member of a gang of two on each of nodes n1 and n2.
type onBoth struct{ slots map[string]int }

func (p onBoth) Plans(_, _ int) iter.Seq[[]framework.NodeShare] {
	return func(yield func([]framework.NodeShare) bool) {
		if p.Most(2, 2) == 2 {
			yield([]framework.NodeShare{{Node: "n1", Members: 1}, {Node: "n2", Members: 1}})
		}
	}
}
func (p onBoth) Least(least, most int) int { return p.Most(least, most) }
func (p onBoth) Most(_, _ int) int         { return 2 * min(p.slots["n1"], p.slots["n2"], 1) }
func (p onBoth) Explain(int) string        { return "it has no room on both nodes" }

// TestGatheredGangsAreNotPacked checks that gangs with topology plans are not packed. Packing does not know the
// plugin's rules and would put both members on the larger node.
func TestGatheredGangsAreNotPacked(t *testing.T) {
	for gathered, want := range map[bool]int{true: 0, false: 4} {
		c := newGroup(t, []string{"2", "2"}, []string{"3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"))
		c.helped(nothing, sessiontest.TopologyPlannerFn(func(job *api.JobInfo) (*framework.TopologyPlanner, error) {
			if !gathered || job.UID != "ns/b" {
				return nil, nil
			}
			return &framework.TopologyPlanner{On: func(slots map[string]int, _ int) framework.TopologyPlans { return onBoth{slots} },
				Compare: func(*api.TaskInfo, *api.TaskInfo) int { return 0 }}, nil
		}))
		c.expect(t, fmt.Sprintf("the second gang is to lie on both nodes: %t", gathered), want)
	}
}

// TestAGroupIsPackedOnIdleRoomFirst checks that a gang group is packed on idle resources first, and not with the
// first plan, which includes releasing resources.
func TestAGroupIsPackedOnIdleRoomFirst(t *testing.T) {
	c := newGroup(t, []string{"2", "2"}, []string{"3", "3"}, node("n1", "ib-a", "12"), node("n2", "ib-a", "4"))
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("leaves").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "6"}).Terminating().Obj())
	c.expect(t, "both have idle room", 4)
}

// TestAPackingStaysWithinTheQueue checks that a packing stays within the queue's limit, which is not part of the
// packing problem.
func TestAPackingStaysWithinTheQueue(t *testing.T) {
	for cpu, want := range map[string]int{"9": 0, "10": 4} {
		c := newGroup(t, []string{"2", "2"}, []string{"3", "3"}, node("n1", "ib-a", "6"), node("n2", "ib-a", "4"))
		c.world.PodGroups[0].Spec.Queue, c.world.PodGroups[1].Spec.Queue = "small", "small"
		c.world.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": cpu}).Obj()}
		c.expect(t, "of the 10 cpu that they ask for their queue has "+cpu, want)
	}
}

// TestAGangOfUnlikeMembersIsTriedAgainInAnotherOrder checks that a gang with different members that failed beside the
// other gang of its group is tried again as the first gang. Its members may not share a node, which packing a gang
// group does not support.
func TestAGangOfUnlikeMembersIsTriedAgainInAnotherOrder(t *testing.T) {
	c := newGroup(t, []string{"4"}, []string{"2", "1"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"), node("n3", "ib-b", "5"))
	c.conf += "  - name: binpack\n    arguments: {binpack.weight: 10}\n" // Binpack prefers the fuller node.
	c.world.Pods[0].Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	c.world.PodGroups[1].Annotations[ibcluster.ModeAnnotation] = "required"
	for _, pod := range c.world.Pods[1:] {
		pod.Labels = map[string]string{"app": "b"}
		pod.Spec.NodeSelector = map[string]string{"ibcluster": "ib-a"}
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: v1.LabelHostname,
		}}}}
	}
	c.expect(t, "b has room if it comes first", 3)
}
