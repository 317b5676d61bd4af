// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// placedNode is a node with its cpus, node group and block. used are cpus of a pod that never ends.
type placedNode struct {
	cpu, group, block, used string
	cordoned                bool
}

// TestReservedNodesLieInOneGroup checks that nodes are reserved in one node group, and in one domain within that group
// if the gang has a gather rule. This does not depend on filters: the filter of plugin ibcluster is disabled.
func TestReservedNodesLieInOneGroup(t *testing.T) {
	conf := after5m(100) + "  - name: ibcluster\n    enablePredicate: false\n    arguments: {ibcluster.levels: [group]}\n"
	for name, c := range map[string]struct {
		rule  string
		nodes []placedNode
		want  string
	}{
		"a group for both":            {"", []placedNode{{"4", "g1", "b1", "1", false}, {"4", "g2", "b2", "2", false}, {"4", "g2", "b2", "2", false}}, "n1 n2"},
		"a group for each":            {"", []placedNode{{"4", "g1", "b1", "1", false}, {"4", "g2", "b2", "2", false}}, ""},
		"a block in two groups":       {"Block must", []placedNode{{"4", "g1", "b1", "1", false}, {"4", "g2", "b1", "2", false}}, ""},
		"a block in a group":          {"Block must", []placedNode{{"4", "g1", "b1", "1", false}, {"4", "g2", "b1", "2", false}, {"4", "g2", "b1", "2", false}}, "n1 n2"},
		"the emptier group is first":  {"", []placedNode{{"4", "g1", "b1", "1", false}, {"4", "g1", "b1", "1", false}, {"4", "g2", "b2", "2", false}, {"4", "g2", "b2", "2", false}}, "n0 n1"},
		"half of it fits in another":  {"", []placedNode{{"4", "g1", "b1", "1", false}, {"3", "g1", "b1", "1", false}, {"4", "g2", "b2", "2", false}, {"4", "g2", "b2", "2", false}}, "n2 n3"},
		"an empty node takes no pods": {"", []placedNode{{"4", "g1", "b1", "3", false}, {"4", "g1", "b1", "3", false}, {"4", "g1", "b1", "", true}, {"4", "g2", "b2", "2500m", false}, {"4", "g2", "b2", "2500m", false}}, "n3 n4"},
	} {
		t.Run(name, func(t *testing.T) {
			given := sessiontest.ClusterSpec{}
			for i, n := range c.nodes {
				node := holds(n.cpu).Name(fmt.Sprint("n", i)).Label("group", n.group).Label("spine", "s").Label("block", n.block).Obj()
				node.Spec.Unschedulable = n.cordoned
				given.Nodes = append(given.Nodes, node)
			}
			in(t, given, conf, func(t *testing.T, w *simulation) {
				for i, n := range c.nodes {
					if n.used != "" {
						w.stays(fmt.Sprint("stays-", i), schedtest.Queue, fmt.Sprint("n", i), n.used)
					}
				}
				big := gangNamed("big", 2, says(ibcluster.ModeAnnotation, "required"))
				if c.rule != "" {
					big = gangNamed("big", 2, says(ibcluster.ModeAnnotation, "required"), asks(c.rule))
				}
				w.cluster.Cache().AddPodGroupV1beta1(big)
				w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
				w.pass(10*time.Minute, time.Minute)
				if got := strings.Join(w.reserved(), " "); got != c.want {
					t.Errorf("the reserved nodes are %q, want %q: %s", got, c.want, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestTrialsOfQueues checks that all reservations together do not exceed reservedPercent, and that trials have a
// minimum interval.
func TestTrialsOfQueues(t *testing.T) {
	given := nodes(6, "4")
	// The share of queue c can hold its gang.
	for queue, weight := range map[string]int32{"a": 200, "b": 200, "c": 500} {
		given.Queues = append(given.Queues, schedtest.MakeQueue().Name(queue).Weight(weight).Obj())
	}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		for _, node := range given.Nodes {
			w.stays("on-"+node.Name, schedtest.Queue, node.Name, "4")
		}
		for queue, n := range map[string]int{"a": 1, "b": 1, "c": 2} {
			w.arrives("big-"+queue, queue, n, "4")
		}
		w.session()
		time.Sleep(5 * time.Minute)
		var begins []time.Time
		for range 120 {
			time.Sleep(time.Second)
			if w.session(); len(w.reservedGangs()) > len(begins) {
				begins = append(begins, time.Now())
			}
		}
		if len(begins) != 2 || len(w.reserved()) > 3 {
			t.Fatalf("the reserved nodes are %v for %v, want nodes for two gangs, and at most 3", w.reserved(), w.reservedGangs())
		}
		if apart := begins[1].Sub(begins[0]); apart < trialInterval {
			t.Errorf("a trial follows %s after the first, want at least %s", apart, trialInterval)
		}
	})
}

// TestATrialAsksTheQueueForEachMember: the queue has room for the gang only if pods of the queue itself end. Only nodes
// with such pods are reserved.
func TestATrialAsksTheQueueForEachMember(t *testing.T) {
	for own, want := range map[bool]int{true: 2, false: 0} {
		given := nodes(4, "4")
		given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
		for i, node := range given.Nodes {
			node.Labels = map[string]string{"own": fmt.Sprint(i < 2)}
		}
		in(t, given, after5m(50), func(t *testing.T, w *simulation) {
			for i, queue := range []string{"q", "q", schedtest.Queue, schedtest.Queue} {
				w.stays(fmt.Sprint("full-", i), queue, fmt.Sprint("n", i), "4")
			}
			w.arrives("big", "q", 2, "4", func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"own": fmt.Sprint(own)} })
			w.pass(10*time.Minute, time.Minute)
			if got := w.condition("big", Reserved); len(w.reserved()) != want || got.Reason == reservationEnded {
				t.Errorf("with nodes of the queue's own pods (%t) the reserved nodes are %v, want %d: %s", own, w.reserved(), want, got.Message)
			}
		})
	}
}

// TestMembersOfAllRolesHaveNodes checks that nodes are reserved for all members if the minimum has roles. The largest
// members alone could all be of one role.
func TestMembersOfAllRolesHaveNodes(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes[3].Labels = map[string]string{"for": "b"}
	in(t, given, after5m(100), func(t *testing.T, w *simulation) {
		w.full()
		w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(2).MinTaskMember("a", 1).MinTaskMember("b", 1).Obj())
		for i, role := range []string{"a", "a", "b"} {
			pod := schedtest.MakePod().Name(fmt.Sprint("big-", i)).Group("big").Role(role).Req(cores("4"))
			if role == "b" {
				pod.NodeSelector("for", "b").Req(cores("3"))
			}
			w.add(pod.Obj())
		}
		w.untilReserved("big")
		if got := strings.Join(w.reserved(), " "); got != "n0 n1 n3" {
			t.Errorf("the reserved nodes are %s, want a node for each member, of which n3 is for role b", got)
		}
	})
}

// TestAGangThatIsMadeAgainHasNotTheRoomOfTheFormer checks that a recreated PodGroup is not admitted because of the
// reservation of the former PodGroup.
func TestAGangThatIsMadeAgainHasNotTheRoomOfTheFormer(t *testing.T) {
	conf := strings.Replace(after5m(50), "  - name: proportion\n", "  - name: proportion\n  - name: overcommit\n    arguments: {overcommit-factor: 1.0}\n", 1)
	in(t, nodes(4, "4"), conf, func(t *testing.T, w *simulation) {
		w.full()
		group := func() *v1beta1.PodGroup {
			return schedtest.MakePodGroup().Name("big").MinMember(2).MinResources(cores("8")).Phase(v1beta1.PodGroupPending).Obj()
		}
		w.cluster.Cache().AddPodGroupV1beta1(group())
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		w.untilReserved("big")
		again := group()
		again.UID = "another"
		w.cluster.Cache().DeletePodGroupV1beta1(group())
		w.cluster.Cache().AddPodGroupV1beta1(again)
		if w.session(); w.phase("big") != scheduling.PodGroupPending {
			t.Errorf("in the session that ends the former reservation the new PodGroup is %s", w.phase("big"))
		}
	})
}
