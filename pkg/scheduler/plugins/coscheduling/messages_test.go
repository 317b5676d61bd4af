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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling/topologyplan"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestMessages has the texts about groups, settings and minima that users read on PodGroups. Further tests in this file
// have the texts about reservations and the network topology.
func TestMessages(t *testing.T) {
	xy := says(gangs.GroupsAnnotation, groupOf("x", "y"))
	// waits returns the pending reason of gang x.
	waits := func(room string, list ...gangOf) string {
		ssn := open(t, room, list)
		job := ssn.Jobs[api.JobID(schedtest.Namespace+"/x")]
		reason, _ := ssn.PendingReason(job.UID)
		if verdict := ssn.JobValid(job); verdict != nil && !verdict.Pass {
			reason.Reason, reason.Message = verdict.Reason, verdict.Message
		}
		return reason.Reason + ": " + reason.Message
	}
	// pending returns why gang x is pending by its plugins together.
	pending := func(list ...gangOf) string {
		ssn := open(t, "9", list)
		job := ssn.Jobs["ns/x"]
		ssn.Close()
		c := conditions.Find(&job.PodGroup.Status, scheduling.PodGroupUnschedulableType)
		return c.Reason + ": " + c.Message
	}
	// withoutPodGroup returns why gang x is pending if gang y has pods on nodes and no PodGroup. The cache then gives the
	// session a PodGroup that does not exist, so it has no UID.
	withoutPodGroup := func(x, y gangOf) string {
		deleted := y.podGroup()
		deleted.UID, deleted.Annotations = "", nil
		cluster := sessiontest.New(sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{x.podGroup(), deleted}, Pods: append(x.pods(), y.pods()...),
			Nodes: []*v1.Node{schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "9", "memory": "1Gi", "pods": "100"}).Obj()}})
		defer cluster.Close()
		registry := framework.NewRegistry()
		registry.RegisterPlugin(Spec())
		ssn := cluster.Open(registry, conf)
		defer ssn.Close()
		verdict := ssn.JobValid(ssn.Jobs["ns/x"])
		return verdict.Reason + ": " + verdict.Message
	}
	// condition returns the condition of gang x of this type.
	condition := func(kind string, list ...gangOf) string {
		for _, c := range open(t, "9", list).Jobs[api.JobID(schedtest.Namespace+"/x")].PodGroup.Status.Conditions {
			if string(c.Type) == kind {
				return c.Reason + ": " + c.Message
			}
		}
		return "none"
	}
	x := gangOf{name: "x", minimum: 2, waiting: 2, annotations: xy}
	y := func(change func(*gangOf)) gangOf {
		g := gangOf{name: "y", minimum: 3, waiting: 3, annotations: xy}
		change(&g)
		return g
	}
	policy := func(name string, running, waiting int) gangOf {
		return gangOf{name: "x", minimum: 2, running: running, waiting: waiting, annotations: says(gangs.MatchPolicyAnnotation, name)}
	}
	got := map[string]string{
		"a gang of the group does not exist":    waits("9", x),
		"the PodGroup of a gang was deleted":    withoutPodGroup(x, y(func(g *gangOf) { g.running, g.waiting = 3, 0 })),
		"a gang of another namespace":           waits("9", gangOf{name: "x", minimum: 2, waiting: 2, annotations: says(gangs.GroupsAnnotation, `["ns/x","other/y"]`)}),
		"a gang does not list it":               waits("9", x, gangOf{name: "y", minimum: 1, waiting: 1}),
		"a gang lacks pods":                     waits("9", x, y(func(g *gangOf) { g.waiting = 2 })),
		"a gang lacks pods of a role":           waits("9", x, y(func(g *gangOf) { g.roles, g.waitingFor = map[string]int32{"ps": 2}, []string{"w", "w", "w"} })),
		"a gang has pods with scheduling gates": waits("9", x, y(func(g *gangOf) { g.gated = 1 })),
		"a gang lacks pending pods of its minimum": waits("9", x, y(func(g *gangOf) {
			g.running, g.gated, g.annotations = 2, 1, says(gangs.GroupsAnnotation, groupOf("x", "y"), gangs.MatchPolicyAnnotation, "only-waiting")
		})),
		"a gang lacks pending pods": waits("9", x, y(func(g *gangOf) {
			g.running, g.waiting, g.annotations = 2, 1, says(gangs.GroupsAnnotation, groupOf("x", "y"), gangs.MatchPolicyAnnotation, "only-waiting")
		})),
		"pods on nodes do not count":                pending(policy("only-waiting", 1, 1)),
		"pods on nodes do not count for a role":     pending(gangOf{name: "x", minimum: 2, running: 1, waiting: 2, roles: map[string]int32{"ps": 1}, runningAs: []string{"ps"}, waitingFor: []string{"w", "w"}, annotations: says(gangs.MatchPolicyAnnotation, "only-waiting")}),
		"the list is invalid":                       waits("9", gangOf{name: "x", minimum: 2, waiting: 2, annotations: says(gangs.GroupsAnnotation, "[ns/x]")}),
		"the group has room for the other gang":     waits("3", x, y(func(*gangOf) {})),
		"an invalid setting":                        condition(string(InvalidSettings), gangOf{name: "x", minimum: 2, waiting: 2, annotations: says(gangs.ModeAnnotation, "strict")}),
		"the minimum is reached":                    condition(string(Satisfied), policy("once-satisfied", 2, 1)),
		"the minimum is reached, by another policy": condition(string(Whole), policy("waiting-and-running", 2, 1)),
	}
	want := map[string]string{
		"a gang of the group does not exist":        "WaitingForGroup: gang group ns/x,ns/y: gangs that do not exist or belong to another scheduler: ns/y",
		"the PodGroup of a gang was deleted":        "WaitingForGroup: gang group ns/x,ns/y: gangs that do not exist or belong to another scheduler: ns/y",
		"a gang of another namespace":               "WaitingForGroup: gang group ns/x,other/y: gangs that do not exist, belong to another scheduler, or do not list the same gangs: other/y",
		"a gang does not list it":                   "InvalidGangGroup: gang group ns/x,ns/y: annotation gang.scheduling.koordinator.sh/groups differs on ns/y; all gangs of a group must list the same gangs",
		"a gang lacks pods":                         "WaitingForGroup: gang group ns/x,ns/y: incomplete gangs: ns/y has 2 of 3 pods",
		"a gang lacks pods of a role":               "WaitingForGroup: gang group ns/x,ns/y: incomplete gangs: ns/y has 3 of 3 pods, but too few of a role or sub-group",
		"a gang lacks pending pods of its minimum":  "WaitingForGroup: gang group ns/x,ns/y: incomplete gangs: ns/y has 2 of 3 pending pods required (match policy only-waiting ignores pods on nodes)",
		"a gang lacks pending pods":                 "WaitingForGroup: gang group ns/x,ns/y: incomplete gangs: ns/y has 3 of 5 pods",
		"a gang has pods with scheduling gates":     "WaitingForGroup: gang group ns/x,ns/y: incomplete gangs: ns/y has 2 of 3 required pods without scheduling gates",
		"pods on nodes do not count":                "NotEnoughTasks: minMember is 2 and there is 1 pending pod; only pending pods count for the minimum, by the gang's match policy or because earlier pods have ended",
		"pods on nodes do not count for a role":     "NotEnoughPodsOfTask: the minima of roles need more pending pods; only pending pods count for the minimum, by the gang's match policy or because earlier pods have ended",
		"the list is invalid":                       `InvalidGangGroup: gang.scheduling.koordinator.sh/groups: invalid value "[ns/x]", must be a JSON list of "namespace/name", such as ["default/trainer","default/ps"]; the gang is not scheduled until this is corrected`,
		"the group has room for the other gang":     "NotEnoughResources: does not fit beside 1 placed gang of its group: 0/2 members fit: 1 node short of cpu",
		"an invalid setting":                        `InvalidGangSettings: gang.scheduling.koordinator.sh/mode: invalid value "strict", must be Strict or NonStrict; using NonStrict`,
		"the minimum is reached":                    "GangSatisfied: Minimum reached (2 pods); further pods are bound individually",
		"the minimum is reached, by another policy": "WaitingAndRunning: Minimum was reached once, with 2 pods on nodes; new pods are bound by match policy waiting-and-running",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfTimeLimits has the condition TimeLimit of gangs and gang groups, from their admission to the backoff.
func TestMessagesOfTimeLimits(t *testing.T) {
	got := map[string]string{}
	says := func(w *simulation, gang string) string {
		c := w.condition(gang, TimeLimit)
		return c.Reason + ": " + c.Message
	}
	// untilBack runs sessions until gang a has this number of timeouts.
	untilBack := func(w *simulation, tries int) {
		for range 300 {
			w.pass(time.Second, time.Second)
			if w.condition("a", TimeLimit).Reason == timedOut && w.plugin.limits["ns/a"].tries == tries {
				return
			}
		}
		t.Errorf("gang a has not timed out %d times", tries)
	}
	in(t, narrow([]*schedtest.PodGroupBuilder{waits("a")}, members(small(), "a", 3)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		got["admitted"] = says(w, "a")
		untilBack(w, 1)
		got["timed out"] = says(w, "a")
		untilBack(w, 2)
		got["timed out again"] = says(w, "a")
	})
	groups := func(name string) *schedtest.PodGroupBuilder {
		return waits(name).Annotation(gangs.GroupsAnnotation, groupOf("a", "b"))
	}
	in(t, narrow([]*schedtest.PodGroupBuilder{groups("a"), groups("b")}, members(small(), "a", 4)...), limits, func(t *testing.T, w *simulation) {
		w.session()
		untilBack(w, 1)
		got["a group timed out"] = says(w, "b")
		delete(w.plugin.limits, w.job("b").UID)
		w.session(func(*sessiontest.Session) {
			wait := w.plugin.session.gangs[w.job("b").UID].waits
			got["a gang joins a group that timed out"] = wait.Reason + ": " + wait.Message
		})
	})
	want := map[string]string{
		"admitted":                            "GangAdmitted: Admitted; returns to Pending unless a member is bound within its waiting time",
		"timed out":                           "GangTimedOut: Not scheduled within 1m0s (timeout 1), retrying after 2000-01-01T00:01:10Z: NotEnoughTasks: minMember is 4 and there are 3 pods",
		"timed out again":                     "GangTimedOut: Not scheduled within 1m0s (timeout 2), retrying after 2000-01-01T00:02:33Z: NotEnoughTasks: minMember is 4 and there are 3 pods",
		"a group timed out":                   "GangTimedOut: Gang group not scheduled within 1m0s (timeout 1), retrying after 2000-01-01T00:01:08Z: gang ns/a: WaitingForGroup: gang group ns/a,ns/b: incomplete gangs: ns/b has 0 of 4 pods",
		"a gang joins a group that timed out": "GangTimedOut: Gang group not scheduled within 1m0s (timeout 1), retrying after 2000-01-01T00:01:08Z: gang ns/a: WaitingForGroup: gang group ns/a,ns/b: incomplete gangs: ns/b has 0 of 4 pods",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfReservations has the condition NodeReservation of a gang with reserved nodes, the event of each end of
// a reservation, and the message that other gangs get about the nodes.
func TestMessagesOfReservations(t *testing.T) {
	got := map[string]string{}
	for name, happens := range map[string]func(w *simulation, r *reservation){
		"its nodes do not drain": func(_ *simulation, r *reservation) { r.since = time.Now().Add(-30 * time.Minute) },
		"its nodes are idle": func(_ *simulation, r *reservation) {
			r.since, r.drained = time.Now().Add(-29*time.Minute), time.Now().Add(-idleLimit)
		},
		"it is over":          func(_ *simulation, r *reservation) { r.since = time.Now().Add(-35 * time.Minute) },
		"a member is deleted": func(w *simulation, _ *reservation) { w.remove("big-0") },
		"a pod is created on a node": func(w *simulation, _ *reservation) {
			w.add(schedtest.MakePod().Name("big-9").Group("big").Node("n3").Phase(v1.PodRunning).Req(cores("1")).Obj())
		},
		"its nodes are cordoned": func(w *simulation, _ *reservation) {
			for i := range 4 {
				if err := w.cluster.Cache().AddOrUpdateNode(holds("4").Name(fmt.Sprint("n", i)).Cordon().Obj()); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(trialInterval, trialInterval)
		},
	} {
		in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
			w.full()
			w.arrives("big", schedtest.Queue, 2, "4")
			w.untilReserved("big")
			got["reserved"] = nodesReserved + ": " + w.condition("big", Reserved).Message
			recorder := record.NewFakeRecorder(1000)
			w.cluster.Cache().Recorder = recorder
			happens(w, w.plugin.reservations.active[schedtest.Queue])
			w.session()
			for len(recorder.Events) > 0 { // a gang that runs no longer has the condition
				if event := <-recorder.Events; strings.Contains(event, reservationEnded) {
					got[name] = event
				}
			}
		})
	}
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.arrives("other", schedtest.Queue, 1, "1")
		w.untilReserved("big")
		w.session(func(ssn *sessiontest.Session) {
			for _, task := range ssn.Jobs["ns/other"].Tasks {
				got["a node, to another gang"] = refusal(w.plugin.session.reserved.predicate(task, ssn.Nodes[w.reserved()[0]]))
			}
		})
	})
	const released = "Normal ReservationEnded Released 2 reserved nodes, no new reservation before "
	const full = ": QueueFull: queue default has no room in its share of the cluster (plugin proportion) for cpu 4: the queue uses cpu 16, the cluster has cpu 16"
	want := map[string]string{
		"reserved":                   "NodesReserved: Reserved 2 nodes (n0, n1) for at most 35m0s: the gang has waited longer than starvationAfter (5m0s)",
		"its nodes do not drain":     released + "2000-01-01T01:06:00Z: pods on them did not terminate within 30m0s" + full,
		"its nodes are idle":         released + "2000-01-01T01:06:00Z: they were idle for 5m0s and the gang was still not placed" + full,
		"it is over":                 released + "2000-01-01T01:06:00Z: they were reserved for 35m0s and the gang was still not placed" + full,
		"a member is deleted":        released + "2000-01-01T01:06:00Z: pods that the gang's minimum needs do not exist",
		"a pod is created on a node": released + "2000-01-01T01:06:00Z: pods of the gang are bound, but too few that waited for the nodes (0 of minMember 2)",
		"its nodes are cordoned":     released + "2000-01-01T01:06:30Z: 2 of the gang's pods fit no node, even if nodes were drained",
		"a node, to another gang":    "node(s) reserved for a starving gang",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfClosedQueues has the message of a gang that gets no reservation because its queue is closed, and of a
// reservation that ends for that reason.
func TestMessagesOfClosedQueues(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.session(func(ssn *sessiontest.Session) {
			m, job, queue := w.plugin.session.reservations, ssn.Jobs["ns/big"], ssn.Queues[schedtest.Queue]
			r := m.known.active[schedtest.Queue]
			delete(ssn.Queues, queue.UID)
			defer func() { ssn.Queues[queue.UID] = queue }()
			if err, want := m.admits(r), "queue default no longer exists or is not open"; err == nil || err.Error() != want {
				t.Errorf("the reservation ends with %v, want %s", err, want)
			}
			m.reserve(job, time.Now())
			i := slices.IndexFunc(job.PodGroup.Status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == Reserved })
			want := "Waiting longer than starvationAfter (5m0s), but no nodes can be reserved: queue default does not exist or is not open"
			if i < 0 || job.PodGroup.Status.Conditions[i].Message != want {
				t.Errorf("the conditions are %v, want one with message %s", job.PodGroup.Status.Conditions, want)
			}
		})
	})
}

// refusal returns the reason for which a filter rejects a node, as users read it; empty if the filter accepts the node.
func refusal(err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return ""
	}
	return strings.Join(fit.Status.Reasons(), ", ")
}

// TestWhyNoNodesAreReserved checks the reasons that a gang's condition gives if no nodes are reserved.
func TestWhyNoNodesAreReserved(t *testing.T) {
	for name, tt := range map[string]struct {
		percent int
		cpu     string
		group   func(*schedtest.PodGroupBuilder)
		want    string
	}{
		"more than may be reserved": {percent: 25, cpu: "4", want: "the gang needs more than 25% of the cluster, the limit for reservations (reservedPercent)"},
		"more than a node has":      {percent: 100, cpu: "5", want: "2 of the gang's pods fit no node, even if nodes were drained"},
		"a hard network topology": {percent: 100, cpu: "4", group: func(g *schedtest.PodGroupBuilder) { g.Topology(v1beta1.HardNetworkTopologyMode, 1) },
			want: "the gang has a hard network topology, and reserved nodes can be in different HyperNodes"},
		"more than its members": {percent: 100, cpu: "4", group: func(g *schedtest.PodGroupBuilder) { g.MinResources(cores("9")) }, want: "minResources asks for cpu 9, and the pods that the minimum needs request 8"},
		"more pods than it has": {percent: 100, cpu: "4", group: func(g *schedtest.PodGroupBuilder) { g.MinResources(schedtest.Resources{"cpu": "8", "pods": "3"}) },
			want: "minResources asks for pods 3, and the pods that the minimum needs request 2"},
		"devices that its members do not request": {percent: 100, cpu: "4", group: func(g *schedtest.PodGroupBuilder) {
			g.MinResources(schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "1"})
		}, want: "minResources asks for nvidia.com/gpu 1, and the pods that the minimum needs request 0"},
		"as much as its members":     {percent: 50, cpu: "4", group: func(g *schedtest.PodGroupBuilder) { g.MinResources(cores("8")) }},
		"more than its queue admits": {percent: 100, cpu: "4", group: func(g *schedtest.PodGroupBuilder) { g.Queue("small") }, want: "the gang's minimum is too large for its queue: queue small has capability cpu 7, 8 requested"},
	} {
		t.Run(name, func(t *testing.T) {
			given := nodes(3, "4")
			given.Nodes = append(given.Nodes, schedtest.MakeNode().Name("n3").Capacity(schedtest.Resources{"cpu": "4", "nvidia.com/gpu": "8", "pods": "20"}).Obj())
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(cores("7")).Obj()}
			in(t, given, after5m(tt.percent), func(t *testing.T, w *simulation) {
				w.full()
				group := schedtest.MakePodGroup().Name("big").MinMember(2)
				if tt.group != nil {
					tt.group(group)
				}
				made := group.Obj()
				made.CreationTimestamp = metav1.Now()
				w.cluster.Cache().AddPodGroupV1beta1(made)
				w.add(members(schedtest.MakePod().Req(cores(tt.cpu)), "big", 2)...)
				w.pass(8*time.Minute, time.Minute)
				got := w.condition("big", Reserved)
				if tt.want == "" {
					if len(w.reserved()) != 2 {
						t.Errorf("the reserved nodes are %v: %s", w.reserved(), got.Message)
					}
					return
				}
				if want := "Waiting longer than starvationAfter (5m0s), but no nodes can be reserved: " + tt.want; got.Reason != noNodesToReserve || got.Message != want {
					t.Errorf("the condition is %s: %s, want %s", got.Reason, got.Message, want)
				}
			})
		})
	}
}

// TestWhyATrialReservesNoNodes has the reasons of trials that are not in TestWhyNoNodesAreReserved.
func TestWhyATrialReservesNoNodes(t *testing.T) {
	if want := "the search for nodes took longer than 200ms"; errTrialTooLong.Error() != want {
		t.Errorf("got %q, want %q", errTrialTooLong, want)
	}
	const noNodes = "Waiting longer than starvationAfter (5m0s), but no nodes can be reserved: "
	limited := schedtest.MakeQueue().Name("limited").Obj()
	limited.Spec.Deserved = v1.ResourceList{v1.ResourceCPU: resource.MustParse("7")}
	given := nodes(4, "4")
	given.Queues = []*v1beta1.Queue{limited}
	in(t, given, after5m(100), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", "limited", 2, "3")
		w.pass(8*time.Minute, time.Minute)
		want := noNodes + "the nodes that the gang needs exceed the unused share of its queue: queue limited would use cpu 8, its share is 7"
		if got := w.condition("big", Reserved); got.Reason != noNodesToReserve || got.Message != want {
			t.Errorf("the condition is %s: %s, want %s", got.Reason, got.Message, want)
		}
	})
	given = nodes(3, "4")
	for _, node := range given.Nodes {
		node.Labels["group"] = "g1"
	}
	conf := after5m(100) + "  - name: ibcluster\n    enablePredicate: false\n    arguments: {ibcluster.levels: [group]}\n"
	in(t, given, conf, func(t *testing.T, w *simulation) {
		w.full()
		w.cluster.Cache().AddPodGroupV1beta1(gangNamed("big", 2, says(ibcluster.ModeAnnotation, "required", ibcluster.ClustersAnnotation, "g2")))
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		w.pass(8*time.Minute, time.Minute)
		want := noNodes + "no node group is allowed for the gang"
		if got := w.condition("big", Reserved); got.Reason != noNodesToReserve || got.Message != want {
			t.Errorf("the condition is %s: %s, want %s", got.Reason, got.Message, want)
		}
	})
}

// TestNodesThatAGatheredGangIsRefused checks which nodes the filter rejects for a gang with gather rules that has no
// members on nodes, by action. It rejects no node for other gangs.
func TestNodesThatAGatheredGangIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		gathered *gathered
		action   string
		want     string
		binds    bool
	}{
		"not gathered":                  {nil, "preempt", "", false},
		"gathered anywhere":             {&gathered{}, "preempt", "", false},
		"not now":                       {&gathered{err: errors.New("why")}, "allocate", "why", true},
		"by multiples":                  {&gathered{multiple: true}, "allocate", "", false},
		"by multiples, in preempt":      {&gathered{multiple: true}, "preempt", "", false},
		"in one domain, not chosen yet": {&gathered{must: 1, rules: make([]topologyplan.Layer, 4)}, "allocate", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := networkWith(map[api.JobID]*gathered{"ns/g": {}})
			n.asking["ns/g"], n.ssn.Action = tt.gathered, tt.action
			if got := refusal(n.predicate(memberOn("ns/g", 0, api.Pending, "", ""), n.ssn.NodeList[0])); got != tt.want {
				t.Errorf("the node is rejected because of %q, want %q", got, tt.want)
			}
			if binds := n.jobKey(n.ssn.Jobs["ns/g"]) != ""; binds != tt.binds {
				t.Errorf("the filter may reject nodes: %t, want %t", binds, tt.binds)
			}
			if err := n.invalidTopology(n.ssn.Jobs["ns/g"]); (err != nil) != (tt.gathered != nil && tt.gathered.err != nil) {
				t.Errorf("the gang's topology is invalid: %v", err)
			}
		})
	}
	var none *network
	if none.jobKey(api.NewJobInfo("ns/g")) != "" || none.invalidTopology(api.NewJobInfo("ns/g")) != nil || none.domainsFor(api.NewJobInfo("ns/g")) != nil || none.predicate(memberOn("ns/g", 0, api.Pending, "", ""), nil) != nil {
		t.Error("without gangs with gather rules the plugin must reject nothing")
	}
	if networkWith(nil).jobKey(nil) != "" {
		t.Error("a job that the session does not have has a key")
	}
}

// TestMembersWhoseNodeLeftTheDomainAreRefused checks that the pre-bind step rejects a member whose node left the
// required domain after the placement. If a node does not change its domain by labels, the step accepts the member.
func TestMembersWhoseNodeLeftTheDomainAreRefused(t *testing.T) {
	const requires = " after the gang was placed; annotation gang.scheduling.koordinator.sh/network-topology-spec requires one Block"
	for name, tt := range map[string]struct {
		asks []string
		now  []*v1.Node
		want string
	}{
		"nothing changed":          {[]string{"Block must"}, tree(), "goes on"},
		"the node is elsewhere":    {[]string{"Block must"}, networkOf("a2 s1 b9 5"), "node a2 moved from Block s1/b1 to s1/b9" + requires},
		"the spine has a new name": {[]string{"Block must"}, networkOf("a2 s9 b1 5"), "node a2 moved from Block s1/b1 to s9/b1" + requires},
		"the node is gone":         {[]string{"Block must"}, networkOf("a1 s1 b1 3"), "node a2 no longer exists; it was in Block s1/b1 when the gang was placed"},
		"without its label":        {[]string{"Block must"}, networkOf("a2 s1 - 5"), "node a2 moved from Block s1/b1 to s1/node/a2" + requires},
		"within its spine":         {[]string{"Spine must"}, networkOf("a2 s1 b9 5"), "goes on"},
		"on its one node":          {[]string{"NodeTopologyLayer must"}, networkOf("a2 s9 b9 5"), "goes on"},
		"preferred only":           {[]string{"Block prefer"}, networkOf("a2 s9 b9 5"), "goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, ssn := gatherCluster(t, sessiontest.ClusterSpec{Nodes: tree(), Pods: waiting("g", 0, 5), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 5, asks(tt.asks...))}}, gatherConf, spines, true)
			if got := bindings(ssn, "g"); got != "a2: 0,1,2,3,4" {
				t.Fatalf("bound members: %s", got)
			}
			cluster.Load(sessiontest.ClusterSpec{Nodes: tt.now})
			bind := ssn.Handed()["ns/g-0"]
			said := "goes on"
			for _, step := range bind.Steps {
				if step.Plugin != Name {
					continue
				}
				err := step.PreBind(t.Context(), bind.Task, bind.Node)
				if err != nil {
					said = err.Error()
				}
				if lastCheck := step.PreCommitCheck(bind.Task, bind.Node); fmt.Sprint(lastCheck) != fmt.Sprint(err) {
					t.Errorf("the pre-commit check returns %v, and the pre-bind step %v", lastCheck, err)
				}
			}
			if said != tt.want {
				t.Errorf("the pre-bind step returns %q, want %q", said, tt.want)
			}
		})
	}
}

// TestLayersOfTopologies checks that layers may be in any order, and the errors of layers that form no chain.
func TestLayersOfTopologies(t *testing.T) {
	spec := func(texts ...string) *v1alpha1.ClusterNetworkTopology {
		topology := &v1alpha1.ClusterNetworkTopology{}
		for _, text := range texts {
			f := strings.Split(text, " ")
			layer := v1alpha1.NetworkTopologySpec{TopologyLayer: v1alpha1.TopologyLayer(f[0]), ParentTopologyLayer: v1alpha1.TopologyLayer(f[1])}
			if f[2] != "" {
				layer.LabelKey = strings.Split(f[2], ",")
			}
			topology.Spec.NetworkTopologySpec = append(topology.Spec.NetworkTopologySpec, layer)
		}
		return topology
	}
	var many []string
	for i := range maxLayers + 1 {
		many = append(many, fmt.Sprintf("l%d l%d k", i, i-1))
	}
	for name, tt := range map[string]struct {
		topology *v1alpha1.ClusterNetworkTopology
		want     string
	}{
		"in any order":                  {spec("NodeTopologyLayer Block ", "Block Spine b,c", "Spine ClusterTopologyLayer s"), "Spine[s] Block[b c]"},
		"without the nodes' own":        {spec("Spine  s", "Block Spine b"), "Spine[s] Block[b]"},
		"none":                          {spec(), ""},
		"one twice":                     {spec("Spine  s", "Spine Block s"), `found layer "Spine" twice, want each layer once`},
		"two beside each other":         {spec("Spine  s", "Rack  r"), `layers "Spine" and "Rack" have the same parent, want one within the other`},
		"one whose parent is not there": {spec("Spine  s", "Block Row b"), "layers without a path to the widest layer: 1; correct their parents"},
		"a ring":                        {spec("Spine Block s", "Block Spine b"), "layers without a path to the widest layer: 2; correct their parents"},
		"one within nodes":              {spec("NodeTopologyLayer  ", "GPU NodeTopologyLayer g"), "layer NodeTopologyLayer has a child layer, but must be the lowest"},
		"one without labels":            {spec("Spine  "), `layer "Spine" has 0 label keys, want 1 to 16`},
		"one without name":              {spec("  s"), `found a layer named "", want one with a name of its own`},
		"the cluster's":                 {spec("ClusterTopologyLayer  s"), `found a layer named "ClusterTopologyLayer", want one with a name of its own`},
		"very many":                     {spec(many...), "found 17 layers, want at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			layers, err := layersOf(tt.topology)
			var parts []string
			for _, l := range layers {
				parts = append(parts, l.name+fmt.Sprint(l.keys))
			}
			got := strings.Join(parts, " ")
			if err != nil {
				got = err.Error()
			}
			want := tt.want
			if err != nil {
				want = topologyLabel + ": spec.networkTopologySpec: " + want
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestNetworkRulesOfGangs has the errors of rules on the network topology. Rules for existing layers apply. A rule that
// cannot apply is an invalid setting, or prevents the gang's placement.
func TestNetworkRulesOfGangs(t *testing.T) {
	const unknownRow = `annotation gang.scheduling.koordinator.sh/network-topology-spec names unknown layer "Row"; the layers are ClusterTopologyLayer, Spine, Block, NodeTopologyLayer`
	type asked struct {
		Rules    []topologyplan.Layer
		Must     int
		Multiple bool
		Err      string
		Invalid  []string
	}
	plain := func(change ...func(rules []topologyplan.Layer)) []topologyplan.Layer {
		rules := []topologyplan.Layer{{Name: clusterLayer}, {Name: "Spine"}, {Name: "Block"}, {Name: nodeLayer}}
		for _, c := range change {
			c(rules)
		}
		return rules
	}
	must := func(i int) func([]topologyplan.Layer) {
		return func(rules []topologyplan.Layer) { rules[i].Must, rules[i].Multiple = true, 1 }
	}
	for name, tt := range map[string]struct {
		rules  []gangs.GatherRule
		unread error
		change func(g *gang)
		want   asked
	}{
		"one": {rules: []gangs.GatherRule{{Layer: "Block", Must: true, Multiple: 1}}, want: asked{Rules: plain(must(2)), Must: 2}},
		"the narrowest of two": {rules: []gangs.GatherRule{{Layer: "Block", Must: true, Multiple: 1}, {Layer: "Spine", Must: true, Multiple: 1}},
			want: asked{Rules: plain(must(1), must(2)), Must: 2}},
		"the cluster": {rules: []gangs.GatherRule{{Layer: clusterLayer, Must: true, Multiple: 1}}, want: asked{Rules: plain(must(0))}},
		"a node":      {rules: []gangs.GatherRule{{Layer: nodeLayer, Must: true, Multiple: 1}}, want: asked{Rules: plain(must(3)), Must: 3}},
		"multiples, and others of none": {rules: []gangs.GatherRule{{Layer: "Block", Prefer: true, Multiple: 2}, {Layer: "Spine", Prefer: true, Multiple: 1}},
			want: asked{Rules: plain(func(rules []topologyplan.Layer) {
				rules[1].Prefer, rules[1].Multiple, rules[2].Prefer, rules[2].Multiple = true, 1, true, 2
			}), Multiple: true}},
		"a preferred layer that does not exist": {rules: []gangs.GatherRule{{Layer: "Row", Prefer: true, Multiple: 1}}, want: asked{Rules: plain(),
			Invalid: []string{gangs.TopologyAnnotation + ": layer \"Row\" is unknown, must be one of " + clusterLayer + ", Spine, Block, " + nodeLayer + "; the rule is ignored"}}},
		"a required one": {rules: []gangs.GatherRule{{Layer: "Row", Must: true, Multiple: 1}},
			want: asked{Rules: plain(), Err: unknownRow}},
		"multiples of one": {rules: []gangs.GatherRule{{Layer: "Row", Prefer: true, Multiple: 2}},
			want: asked{Rules: plain(), Err: unknownRow}},
		"no layers are read for a preference": {rules: []gangs.GatherRule{{Layer: "Row", Prefer: true, Multiple: 1}}, unread: errors.New("not yet"),
			want: asked{Rules: plain(), Invalid: []string{gangs.TopologyAnnotation + ": layer \"Row\" of the network cannot be used: not yet; the rule is ignored"}}},
		"no layers are read": {rules: []gangs.GatherRule{{Layer: "Row", Must: true, Multiple: 1}}, unread: errors.New("not yet"),
			want: asked{Rules: plain(), Err: "layer \"Row\" of the network cannot be used: not yet"}},
		"beside a hard topology": {rules: []gangs.GatherRule{{Layer: "Block", Must: true, Multiple: 1}},
			change: func(g *gang) {
				tier := 1
				g.PodGroup.Spec.NetworkTopology = &scheduling.NetworkTopologySpec{Mode: scheduling.HardNetworkTopologyMode, HighestTierAllowed: &tier}
			},
			want: asked{Rules: plain(must(2)), Must: 2, Err: "annotation gang.scheduling.koordinator.sh/network-topology-spec conflicts with spec.networkTopology of mode hard; remove one of them"}},
		"beside sub-groups": {rules: []gangs.GatherRule{{Layer: "Block", Must: true, Multiple: 1}},
			change: func(g *gang) { g.PodGroup.Spec.SubGroupPolicy = []scheduling.SubGroupPolicySpec{{Name: "a"}} },
			want:   asked{Rules: plain(must(2)), Must: 2, Err: "annotation gang.scheduling.koordinator.sh/network-topology-spec conflicts with spec.subGroupPolicy; remove one of them"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := networkWith(nil)
			n.unread = tt.unread
			g := &gang{JobInfo: ofSizes(1)}
			g.Gather = tt.rules
			if tt.change != nil {
				tt.change(g)
				g.SetPodGroup(g.PodGroup)
			}
			a := n.request(g)
			got := asked{Rules: a.rules, Must: a.must, Multiple: a.multiple}
			if a.err != nil {
				got.Err = a.err.Error()
			}
			for _, m := range g.invalid {
				got.Invalid = append(got.Invalid, m.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if binds := a.binds(); binds != (tt.want.Must > 0 || tt.want.Err != "") {
				t.Errorf("the filter may reject nodes: %t", binds)
			}
		})
	}
}
