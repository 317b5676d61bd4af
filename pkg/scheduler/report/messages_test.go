// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAStepThatEndsIsReported checks that the end of a long step is reported on the pod, whose condition reported
// before that the step runs for long.
func TestAStepThatEndsIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		m := &binding.Member{Task: api.NewTaskInfo(w.cluster.Pod("p0")), Node: "n"}
		o := w.reporter.Observe(ignore{})
		o.Delayed(m, binding.Delay{Kind: binding.StepWaits, Plugin: "p", Node: "n", Since: time.Unix(0, 0).UTC()})
		w.settle()
		o.DelayEnded(m, nil)
		w.settle()
		got := ""
		for _, c := range w.cluster.Pod("p0").Status.Conditions {
			got += string(c.Type) + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		want := "PodScheduled=False SchedulerError: A long pre-bind step has ended; the pod is bound after its remaining steps, with its gang"
		if got != want {
			t.Errorf("the pod's conditions are %q, want %q", got, want)
		}
	})
}

// ignore is an observer of bind transactions that ignores delays.
type ignore struct{ binding.Observer }

func (ignore) Delayed(*binding.Member, binding.Delay) {}
func (ignore) DelayEnded(*binding.Member, error)      {}

// TestMessages compares the messages that users read on gangs and pods after a transaction, and on PodGroups with
// fields without effect.
func TestMessages(t *testing.T) {
	member := func(name string) *binding.Member {
		return &binding.Member{Task: api.NewTaskInfo(schedtest.MakePod().Name(name).Group("g").Obj()), Node: "n"}
	}
	fails := func(quorum error, names ...string) Failure {
		result := binding.Result{QuorumErr: quorum}
		for _, name := range names {
			result.Failed = append(result.Failed, binding.Failure{Member: member(name), Err: &binding.StepError{Plugin: "p", Pod: "ns/" + name, Node: "n", Err: errors.New("no room")}})
		}
		return newFailure(result, result.Failed)
	}
	short := errors.New("only 1 of minMember 2 can be bound")
	pending := func(pods ...string) string {
		d := newDelays()
		for _, name := range pods {
			d.add(member(name), binding.Delay{Kind: binding.StepWaits, Plugin: "p", Node: "n", Since: time.Unix(0, 0).UTC()})
		}
		status := &scheduling.PodGroupStatus{}
		d.correct("ns/g", status)
		return status.Conditions[0].Reason + ": " + status.Conditions[0].Message
	}
	ineffective := func(group *schedtest.PodGroupBuilder, hyperNodes HyperNodes) (text string) {
		withHarness(t, func(t *testing.T, w *harness) {
			job, converted := api.NewJobInfo("ns/g"), &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
			if err := scheme.Scheme.Convert(group.Name("g").Obj(), &converted.PodGroup, nil); err != nil {
				t.Fatal(err)
			}
			job.SetPodGroup(converted)
			text = strings.Join(w.reporter.ineffective(job, hyperNodes), "; ")
		})
		return text
	}
	const hard, soft = v1beta1.HardNetworkTopologyMode, v1beta1.SoftNetworkTopologyMode
	inSubGroups := func() *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().SubGroups("rings", "ring", 2, 1) }
	got := map[string]string{
		"one of two failed, on the gang":                 fails(short, "p0").Reason + ": " + fails(short, "p0").Message,
		"one of two failed, on the other":                fails(short, "p0").others,
		"both failed":                                    fails(short, "p0", "p1").Message,
		"three failed":                                   fails(short, "p0", "p1", "p2").Message,
		"a pre-bind step runs for long":                  pending("p0"),
		"pre-bind steps run for long":                    pending("p0", "p1"),
		"minTaskMember exceeds minMember":                ineffective(schedtest.MakePodGroup().MinMember(2).MinTaskMember("a", 2).MinTaskMember("b", 2), HyperNodes{}),
		"hard topology without HyperNodes":               ineffective(schedtest.MakePodGroup().Topology(hard, 1), HyperNodes{None: true}),
		"hard topology by name without HyperNodes":       ineffective(schedtest.MakePodGroup().TopologyByName(hard, "rack"), HyperNodes{None: true}),
		"hard topologies without HyperNodes":             ineffective(inSubGroups().TopologyByName(hard, "row").SubGroupTopology(hard, 1), HyperNodes{None: true}),
		"hard topology without a tier":                   ineffective(schedtest.MakePodGroup().TopologyByName(hard, ""), HyperNodes{None: true}),
		"hard topology by an unknown name":               ineffective(schedtest.MakePodGroup().TopologyByName(hard, "rak"), HyperNodes{TierNames: []string{"rack", "row"}}),
		"hard topology by an unknown name, many tiers":   ineffective(schedtest.MakePodGroup().TopologyByName(hard, "g"), HyperNodes{TierNames: []string{"a", "b", "c", "d", "e", "f"}}),
		"hard topology by name, tiers without names":     ineffective(schedtest.MakePodGroup().TopologyByName(hard, "rack"), HyperNodes{}),
		"hard topology of sub-groups without a tier":     ineffective(inSubGroups().Topology(hard, 1).SubGroupTopologyByName(hard, ""), HyperNodes{}),
		"hard topology of sub-groups by an unknown name": ineffective(inSubGroups().SubGroupTopologyByName(hard, "rak"), HyperNodes{TierNames: []string{"rack"}}),
		"hard topologies by known names":                 ineffective(inSubGroups().TopologyByName(hard, "row").SubGroupTopologyByName(hard, "rack"), HyperNodes{TierNames: []string{"rack", "row"}}),
		"hard topologies by number":                      ineffective(inSubGroups().Topology(hard, 2).SubGroupTopology(hard, 1), HyperNodes{}),
		"soft topologies without effect":                 ineffective(inSubGroups().TopologyByName(soft, "rak").SubGroupTopologyByName(soft, ""), HyperNodes{None: true}),
	}
	want := map[string]string{
		"one of two failed, on the gang":                 "PreBindFailed: pre-bind plugin p failed for pod ns/p0 on node n: no room; only 1 of minMember 2 can be bound, rolled back 1 pod",
		"one of two failed, on the other":                "Gang could not be bound: pre-bind plugin p failed for pod ns/p0 on node n: no room; only 1 of minMember 2 can be bound, rolled back 1 pod",
		"both failed":                                    "pre-bind plugin p failed for pod ns/p0 on node n: no room (and 1 more pod failed); only 1 of minMember 2 can be bound, rolled back all 2 pods",
		"three failed":                                   "pre-bind plugin p failed for pod ns/p0 on node n: no room (and 2 more pods failed); only 1 of minMember 2 can be bound, rolled back all 3 pods",
		"a pre-bind step runs for long":                  "PreBindPending: pod p0: pre-bind plugin p has been running on node n since 1970-01-01T00:00:00Z",
		"pre-bind steps run for long":                    "PreBindPending: pod p0: pre-bind plugin p has been running on node n since 1970-01-01T00:00:00Z (and other pods)",
		"minTaskMember exceeds minMember":                "minTaskMember has no effect, because its sum 4 exceeds minMember 2; set minMember to 4 to require the minimum of every role",
		"hard topology without HyperNodes":               "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes",
		"hard topology by name without HyperNodes":       "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes",
		"hard topologies without HyperNodes":             "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes",
		"hard topology without a tier":                   "networkTopology of mode hard has no effect, because it sets no tier: the gang may be placed on any nodes; set highestTierAllowed or highestTierName",
		"hard topology by an unknown name":               `networkTopology of mode hard has no effect, because its highestTierName "rak" is the tierName of no valid HyperNode: the gang may be placed on any nodes; set highestTierName to an existing tierName: "rack", "row"`,
		"hard topology by an unknown name, many tiers":   `networkTopology of mode hard has no effect, because its highestTierName "g" is the tierName of no valid HyperNode: the gang may be placed on any nodes; set highestTierName to an existing tierName: "a", "b", "c", "d", "e" and 1 more`,
		"hard topology by name, tiers without names":     `networkTopology of mode hard has no effect, because its highestTierName "rack" is the tierName of no valid HyperNode: the gang may be placed on any nodes; set highestTierAllowed instead`,
		"hard topology of sub-groups without a tier":     `networkTopology of mode hard in subGroupPolicy "rings" has no effect, because it sets no tier: each sub-group may be placed on any nodes that the gang may use; set highestTierAllowed or highestTierName`,
		"hard topology of sub-groups by an unknown name": `networkTopology of mode hard in subGroupPolicy "rings" has no effect, because its highestTierName "rak" is the tierName of no valid HyperNode: each sub-group may be placed on any nodes that the gang may use; set highestTierName to an existing tierName: "rack"`,
		"hard topologies by known names":                 "",
		"hard topologies by number":                      "",
		"soft topologies without effect":                 "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfBoundPods compares the event of a bound pod.
func TestMessagesOfBoundPods(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.reporter.Bound(w.cluster.Pod("p0"), "n")
		w.settle()
		if diff := cmp.Diff([]string{"Normal Scheduled p0: Successfully assigned ns/p0 to n"}, w.cluster.Events.Take()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
