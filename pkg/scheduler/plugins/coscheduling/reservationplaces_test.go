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

// placedNode is a node of a group and a block, with what pods that stay use of its cpus.
type placedNode struct {
	cpu, group, block, used string
	cordoned                bool
}

// TestReservedNodesLieInOneGroup, and in one domain of it where the gang is gathered: no plugin need refuse nodes of several.
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
			in(t, given, conf, func(t *testing.T, w *world) {
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
					t.Errorf("reserved are %q, want %q: %s", got, c.want, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestTrialsOfQueues: all reservations together are within the share of the cluster, and trials are apart.
func TestTrialsOfQueues(t *testing.T) {
	given := nodes(6, "4")
	for queue, weight := range map[string]int32{"a": 200, "b": 200, "c": 500} { // c's share holds its gang
		given.Queues = append(given.Queues, schedtest.MakeQueue().Name(queue).Weight(weight).Obj())
	}
	in(t, given, after5m(50), func(t *testing.T, w *world) {
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
			t.Fatalf("reserved are %v for %v, want nodes for two gangs, and at most 3", w.reserved(), w.reservedGangs())
		}
		if apart := begins[1].Sub(begins[0]); apart < trialInterval {
			t.Errorf("a trial comes %s after another, want %s", apart, trialInterval)
		}
	})
}

// TestATrialAsksTheQueueForEachMember: it has room for the gang on nodes where its own pods end, and not on others.
func TestATrialAsksTheQueueForEachMember(t *testing.T) {
	for own, want := range map[bool]int{true: 2, false: 0} {
		given := nodes(4, "4")
		given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("12")).Weight(100).Obj()}
		for i, node := range given.Nodes {
			node.Labels = map[string]string{"own": fmt.Sprint(i < 2)}
		}
		in(t, given, after5m(50), func(t *testing.T, w *world) {
			for i, queue := range []string{"q", "q", schedtest.Queue, schedtest.Queue} {
				w.stays(fmt.Sprint("full-", i), queue, fmt.Sprint("n", i), "4")
			}
			w.arrives("big", "q", 2, "4", func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"own": fmt.Sprint(own)} })
			w.pass(10*time.Minute, time.Minute)
			if got := w.condition("big", Reserved); len(w.reserved()) != want || got.Reason == reservationEnded {
				t.Errorf("on nodes of its queue's pods (%t) reserved are %v, want %d: %s", own, w.reserved(), want, got.Message)
			}
		})
	}
}

// TestMembersOfAllRolesHaveNodes: the largest alone would be of one role.
func TestMembersOfAllRolesHaveNodes(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes[3].Labels = map[string]string{"for": "b"}
	in(t, given, after5m(100), func(t *testing.T, w *world) {
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
			t.Errorf("reserved are %s, want a node for each member, of which n3 is for role b", got)
		}
	})
}

// TestAGangThatIsMadeAgainHasNotTheRoomOfTheFormer: its queue has not admitted it.
func TestAGangThatIsMadeAgainHasNotTheRoomOfTheFormer(t *testing.T) {
	conf := strings.Replace(after5m(50), "  - name: proportion\n", "  - name: proportion\n  - name: overcommit\n    arguments: {overcommit-factor: 1.0}\n", 1)
	in(t, nodes(4, "4"), conf, func(t *testing.T, w *world) {
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
			t.Errorf("in the session that ends the former's reservation it is %s", w.phase("big"))
		}
	})
}
