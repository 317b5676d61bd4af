// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling/topologyplan"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTrialIsReverted checks that after the session of a trial all pods still run and the gang's members are pending.
func TestTrialIsReverted(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		for range 8 {
			time.Sleep(time.Minute)
			w.session(func(ssn *sessiontest.Session) {
				if n := len(ssn.Jobs["ns/big"].TaskStatusIndex[api.Pending]); n != 2 {
					t.Errorf("%d of 2 members are pending", n)
				}
				for i := range 4 {
					if n := len(ssn.Jobs[api.JobID(fmt.Sprint("ns/full-", i))].TaskStatusIndex[api.Running]); n != 1 {
						t.Errorf("the pod on node %d does not run", i)
					}
				}
			})
		}
		if len(w.reserved()) != 2 {
			t.Errorf("the reserved nodes are %v, want two nodes", w.reserved())
		}
	})
}

// TestUnlikeMembersGetUnlikeNodes checks that a trial checks the nodes for each member separately if members have equal
// requests but different node selectors.
func TestUnlikeMembersGetUnlikeNodes(t *testing.T) {
	given := nodes(4, "4")
	for i, node := range given.Nodes {
		node.Labels["kind"] = fmt.Sprint(i % 2)
	}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"kind": strings.TrimPrefix(pod.Name, "big-")}
		})
		w.untilReserved("big")
		kinds := map[string]bool{}
		for _, node := range given.Nodes {
			if slices.Contains(w.reserved(), node.Name) {
				kinds[node.Labels["kind"]] = true
			}
		}
		if len(kinds) != 2 {
			t.Errorf("the reserved nodes %v are of kinds %v, want one of each", w.reserved(), kinds)
		}
	})
}

// TestUnlikeMembersAreOfUnlikeClasses checks which differences between two members make them different for a trial.
func TestUnlikeMembersAreOfUnlikeClasses(t *testing.T) {
	claim := "own"
	tests := map[string]func(*v1.Pod){
		"role": func(pod *v1.Pod) { pod.Annotations["volcano.sh/task-spec"] = "other" },
		"request": func(pod *v1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
		},
		"node selector":      func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"kind": "x"} },
		"affinity":           func(pod *v1.Pod) { pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} },
		"toleration":         func(pod *v1.Pod) { pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} },
		"spread constraints": func(pod *v1.Pod) { pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} },
		"volume":             func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{{Name: "data"}} },
		"claim": func(pod *v1.Pod) {
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		},
	}
	class := func(change func(*v1.Pod)) string {
		pod := small().Name("a-0").Group("a").Obj()
		change(pod)
		class, err := classOf(api.NewTaskInfo(pod))
		if err != nil {
			t.Fatal(err)
		}
		return class
	}
	for name, change := range tests {
		if plain := class(func(*v1.Pod) {}); class(change) == plain || plain != class(func(pod *v1.Pod) { pod.Name = "a-1" }) {
			t.Errorf("a member with another %s is of the same class, or one with another name is not", name)
		}
	}
}

// TestAHigherPriorityReservesOtherNodes checks that a gang of a higher priority gets other nodes, although its pods may
// use the nodes that are reserved for a gang of a lower priority.
func TestAHigherPriorityReservesOtherNodes(t *testing.T) {
	given := nodes(4, "4")
	for _, queue := range []string{"a", "b"} {
		given.Queues = append(given.Queues, schedtest.MakeQueue().Name(queue).Weight(100).Obj())
	}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("low", "a", 1, "4")
		w.untilReserved("low")
		high := int32(10)
		w.arrives("high", "b", 1, "4", func(pod *v1.Pod) { pod.Spec.Priority = &high })
		w.untilReserved("high")
		if both := w.reserved(); len(both) != 2 || both[0] == both[1] {
			t.Errorf("the reserved nodes are %v, want different nodes for the two gangs", both)
		}
	})
}

// TestNamespacesTakeTurnsOfTrials checks that a namespace with many gangs that fit nowhere does not delay the trial of
// a gang of another namespace.
func TestNamespacesTakeTurnsOfTrials(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		for i := range 26 {
			gang := "evil-" + string(rune('a'+i))
			w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Namespace("evil").Name(gang).Queue(schedtest.Queue).MinMember(1).Obj())
			w.add(members(schedtest.MakePod().Namespace("evil").Req(cores("5")), gang, 1)...)
		}
		w.session()
		time.Sleep(time.Second)
		w.arrives("big", schedtest.Queue, 2, "4")
		w.pass(8*time.Minute, 30*time.Second)
		if got := w.reservedGangs()[schedtest.Queue]; got != "big" {
			t.Errorf("nodes are reserved for gang %q, want big", got)
		}
	})
}

// TestQueueReportsResourcesKeptForAReservation: the queue could admit the pod alone, but not beside the gang with the
// reservation. The message names plugin coscheduling.
func TestQueueReportsResourcesKeptForAReservation(t *testing.T) {
	given := nodes(4, "4")
	given.Nodes = append(given.Nodes, holds("2").Name("n4").Obj())
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores("16")).Weight(100).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		for _, node := range given.Nodes[:4] {
			w.stays("on-"+node.Name, "q", node.Name, "4")
		}
		w.arrives("big", "q", 2, "4")
		w.untilReserved("big")
		w.remove("on-" + w.reserved()[0])
		w.arrives("new", "q", 1, "2")
		w.session()
		if got := w.condition("new", "Unschedulable").Message; w.runs("new") || !strings.Contains(got, "(plugin coscheduling)") {
			t.Errorf("the gang runs: %t, and its message is %q, want that it names plugin coscheduling", w.runs("new"), got)
		}
	})
}

// TestANodeOutsideTheSessionIsNotReserved checks that a node is not reserved if the network knows it but the session
// does not have it.
func TestANodeOutsideTheSessionIsNotReserved(t *testing.T) {
	in(t, sessiontest.ClusterSpec{Nodes: tree()}, after5m(100), func(t *testing.T, w *simulation) {
		for _, node := range tree() {
			w.stays("on-"+node.Name, schedtest.Queue, node.Name, node.Status.Allocatable.Cpu().String())
		}
		w.arrives("big", schedtest.Queue, 2, "2")
		w.session(func(ssn *sessiontest.Session) {
			s, r := w.plugin.session, &reservation{gang: "ns/big", queue: schedtest.Queue}
			rules := []topologyplan.Layer{{Name: clusterLayer}, {Name: "Spine"}, {Name: "Block"}, {Name: nodeLayer}}
			s.reservations.network = networkWith(map[api.JobID]*gathered{"ns/big": {must: 2, rules: rules}})
			delete(ssn.Nodes, "a1")
			if err := s.reservations.choose(r, ssn.Jobs["ns/big"]); err != nil || len(r.nodes) == 0 || r.nodes["a1"] {
				t.Errorf("the chosen nodes are %v, and the error is %v, want nodes without a1", r.nodes, err)
			}
		})
	})
}

// slowPredicate rejects all nodes. During a trial it accepts node n1, and sleeps for the duration took before it
// rejects another node.
type slowPredicate struct {
	took  time.Duration
	trial bool
}

func (*slowPredicate) Name() string                          { return "slow" }
func (*slowPredicate) OnSessionClose(ssn *framework.Session) {}
func (p *slowPredicate) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPredicateFn(p.Name(), func(_ *api.TaskInfo, node *api.NodeInfo) error {
		if p.trial && node.Name == "n1" {
			return nil
		}
		if p.trial {
			time.Sleep(p.took)
		}
		return errors.New("no")
	})
}

// TestTrialsInAllNodeGroupsShareATimeLimit: a trial in another node group begins only if less time than the limit has
// passed since the first trial began.
func TestTrialsInAllNodeGroupsShareATimeLimit(t *testing.T) {
	given := nodes(2, "4")
	given.Nodes[0].Labels["group"], given.Nodes[1].Labels["group"] = "g0", "g1"
	conf := strings.Replace(after5m(100), "  - name: priority\n", "  - name: priority\n  - name: slow\n", 1) +
		"  - name: ibcluster\n    arguments: {ibcluster.levels: [group]}\n"
	for took, want := range map[time.Duration]map[string]bool{trialTimeout - 1: {"n1": true}, trialTimeout: {}} {
		t.Run(took.String(), func(t *testing.T) {
			in(t, given, after5m(100), func(t *testing.T, w *simulation) {
				slow := &slowPredicate{took: took}
				w.registry.RegisterPlugin(framework.PluginSpec{Name: "slow", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return slow, nil })})
				w.reload(conf)
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(1).Annotation(ibcluster.ModeAnnotation, "required").Obj())
				w.add(members(schedtest.MakePod().Req(cores("4")), "big", 1)...)
				w.session(func(ssn *sessiontest.Session) {
					slow.trial = true
					r := &reservation{gang: "ns/big", queue: schedtest.Queue}
					err := w.plugin.session.reservations.choose(r, ssn.Jobs["ns/big"])
					if diff := cmp.Diff(want, r.nodes); diff != "" || (err == nil) != (len(want) > 0) {
						t.Errorf("the error is %v, and the chosen nodes are (-want +got):\n%s", err, diff)
					}
				})
			})
		})
	}
}
