// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// byTurns runs the action with an exhausted search budget, so that only the search whose turn it is gets steps. That is
// a search for an order or, if packings is set, for a packing plan.
type byTurns struct {
	*allocate.Action
	packings bool
}

func (b byTurns) Execute(ssn *framework.Session) { b.ExecuteByTurns(ssn, b.packings) }

// boundIn runs the given number of sessions and returns the indices of the sessions that bind the pod. No decision of
// a session takes effect.
func (c *counting) boundIn(pod string, sessions int, packings bool) (bound []int) {
	c.registry.RegisterAction(byTurns{allocate.New(), packings})
	c.action, _ = vcframework.GetAction("allocate")
	for i := range sessions {
		c.look(func(ssn *sessiontest.Session) {
			if ssn.Binds()[pod] != "" {
				bound = append(bound, i)
			}
		})
	}
	return bound
}

// TestAGroupHasTheTurnsOfOneGang checks that a gang group gets as many turns as one gang, although it needs two
// searches: for an order of its gangs, and for an order of gang b's members. Neither finds room. Gang x still has every
// second turn.
func TestAGroupHasTheTurnsOfOneGang(t *testing.T) {
	c := newGroup(t, []string{"31"}, []string{"6", "5", "3", "3", "3"}, // Gang b requests all of its nodes; its members of 6 and 5 leave room for two of 3.
		node("a1", "ib-a", "40"), node("b1", "ib-b", "10"), node("b2", "ib-b", "10"), node("x1", "ib-x", "3"), node("x2", "ib-x", "4"))
	pods, podGroup := gang("x", "2", "2", "1", "1")
	c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
	for _, pod := range c.world.Pods {
		pod.Spec.NodeSelector = map[string]string{"ibcluster": "ib-" + pod.Name[:1]}
	}
	for _, pod := range pods[2:] { // They have no room if the members that request 2 are placed first.
		pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "x1"}
	}
	if diff := cmp.Diff([]int{2, 4, 6}, c.boundIn("ns/x-0", 8, false)); diff != "" {
		t.Errorf("gang x is bound in sessions (-want +got):\n%s", diff)
	}
}

// TestNamespacesOfGroupsHaveTurns checks that namespaces of gang groups take turns. A group that waits for another
// order of its gangs, or for a packing, does not wait for all four groups of another namespace.
func TestNamespacesOfGroupsHaveTurns(t *testing.T) {
	tests := map[string]struct {
		a, b         []int
		small, large string
		onLarge      bool
		packings     bool
	}{
		"the larger gang, placed first, takes the node of the other": {a: []int{2000}, b: []int{3000}, small: "3", large: "4", onLarge: true},
		"each gang spreads over both nodes":                          {a: []int{2000, 2000}, b: []int{3000, 3000}, small: "4", large: "6", packings: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newGroup(t, nil, nil)
			c.world = sessiontest.ClusterSpec{}
			for i, namespace := range []string{"many", "many", "many", "many", "one"} {
				cluster := fmt.Sprint("ib-", i)
				large := node("large-"+cluster, cluster, tt.large)
				c.world.Nodes = append(c.world.Nodes, large, node("small-"+cluster, cluster, tt.small))
				for name, requests := range map[string][]int{"a": tt.a, "b": tt.b} {
					var cpu []string
					for _, milli := range requests {
						cpu = append(cpu, fmt.Sprintf("%dm", milli-i)) // No two packings are equal.
					}
					pods, podGroup := gang(fmt.Sprint(name, i), cpu...)
					podGroup.Namespace = namespace
					podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: fmt.Sprintf(`["%[1]s/a%[2]d","%[1]s/b%[2]d"]`, namespace, i)}
					for _, pod := range pods {
						pod.Namespace, pod.UID = namespace, types.UID(namespace+"-"+pod.Name)
						pod.Spec.NodeSelector = map[string]string{"ibcluster": cluster}
						if tt.onLarge && name == "a" {
							pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: large.Name}
						}
					}
					c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
				}
			}
			if bound := c.boundIn("one/a4-0", 6, tt.packings); len(bound) == 0 || bound[0] != 2 {
				t.Errorf("the group of its own namespace is bound in sessions %v, want 2 first", bound)
			}
		})
	}
}
