// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestFieldsWithoutEffectAreReported checks that fields without effect are reported. Such a gang runs, and a
// condition of its PodGroup lists the fields that have no effect.
func TestFieldsWithoutEffectAreReported(t *testing.T) {
	group := func() *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().Name("g").MinMember(1) }
	roles := func() *schedtest.PodGroupBuilder {
		return group().MinTaskMember("leader", 1).MinTaskMember("worker", 2)
	}
	defaultClass := schedtest.PriorityClass("normal", 5)
	defaultClass.GlobalDefault = true
	const noClass = `True IneffectiveFields: PriorityClass "high" does not exist: the gang has priority `
	const hard = v1beta1.HardNetworkTopologyMode
	const noHyperNodes = "True IneffectiveFields: networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes"
	rack := func() *schedtest.HyperNodeBuilder {
		return schedtest.MakeHyperNode().Name("h").Tier(1).TierName("rack").Nodes("n")
	}
	tests := map[string]struct {
		class     *schedulingv1.PriorityClass
		hyperNode *schedtest.HyperNodeBuilder
		group     *schedtest.PodGroupBuilder
		want      string
		// corrected is the PodGroup after its user has changed the field.
		corrected *schedtest.PodGroupBuilder
	}{
		"role minima whose sum exceeds minMember": {
			group: roles(), corrected: roles().MinMember(3),
			want: "True IneffectiveFields: minTaskMember has no effect, because its sum 3 exceeds minMember 1; set minMember to 3 to require the minimum of every role",
		},
		"role minima of a Volcano Job": {group: roles().OwnedBy("batch.volcano.sh/v1alpha1", "Job")},
		"a PriorityClass that does not exist": {
			class: schedtest.PriorityClass("low", 1), group: group().PriorityClass("high"), corrected: group().PriorityClass("low"), want: noClass + "0",
		},
		"a PriorityClass that does not exist beside a default": {
			class: defaultClass, group: group().PriorityClass("high"), want: noClass + "5",
		},
		"a PriorityClass where the scheduler watches none": {group: group().PriorityClass("high")},
		"hard topology without HyperNodes": {
			group: group().Topology(v1beta1.HardNetworkTopologyMode, 1), corrected: group().Topology(v1beta1.SoftNetworkTopologyMode, 1),
			want: noHyperNodes,
		},
		"hard topology with HyperNodes": {
			hyperNode: schedtest.MakeHyperNode().Name("h").Tier(1).Nodes("n"), group: group().Topology(v1beta1.HardNetworkTopologyMode, 1),
		},
		"hard topology by the name of a tier, without HyperNodes": {group: group().TopologyByName(hard, "rack"), want: noHyperNodes},
		"hard topology of sub-groups by the name of a tier, without HyperNodes": {
			group: group().SubGroups("rings", "ring", 1, 1).SubGroupTopologyByName(hard, "rack"), want: noHyperNodes,
		},
		"hard topology by the name of a tier that does not exist": {
			hyperNode: rack(), group: group().TopologyByName(hard, "rak"), corrected: group().TopologyByName(hard, "rack"),
			want: `True IneffectiveFields: networkTopology of mode hard has no effect, because its highestTierName "rak" is the tierName of no valid HyperNode: ` +
				`the gang may be placed on any nodes; set highestTierName to an existing tierName: "rack"`,
		},
		"hard topology by the tier name of a faulty HyperNode": {
			hyperNode: rack().NodesLike("("), group: group().TopologyByName(hard, "rack"),
			want: `True IneffectiveFields: networkTopology of mode hard has no effect, because its highestTierName "rack" is the tierName of no valid HyperNode: ` +
				`the gang may be placed on any nodes; set highestTierAllowed instead`,
		},
		"hard topology without a tier": {
			hyperNode: rack(), group: group().TopologyByName(hard, ""), corrected: group().Topology(hard, 1),
			want: "True IneffectiveFields: networkTopology of mode hard has no effect, because it sets no tier: the gang may be placed on any nodes; set highestTierAllowed or highestTierName",
		},
		"hard topology of sub-groups without a tier": {
			hyperNode: rack(), group: group().SubGroups("rings", "ring", 1, 1).SubGroupTopologyByName(hard, ""),
			corrected: group().SubGroups("rings", "ring", 1, 1).SubGroupTopologyByName(hard, "rack"),
			want: `True IneffectiveFields: networkTopology of mode hard in subGroupPolicy "rings" has no effect, because it sets no tier: ` +
				`each sub-group may be placed on any nodes that the gang may use; set highestTierAllowed or highestTierName`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				if tt.class != nil {
					showPriorityClass(w.cache, tt.class)
				}
				if tt.hyperNode != nil {
					showHyperNode(w, tt.hyperNode.Obj())
				}
				w.add(schedtest.MakeNode().Name("n").Obj(), tt.group.Obj(), pod(0).Node("n").Phase(v1.PodRunning).Obj())
				w.settled()
				reported := func() string {
					w.cache.SessionSnapshot()
					w.verdict(saysRunning)
					time.Sleep(2 * statuswriter.Settle)
					synctest.Wait()
					return conditionOf(w.cluster, v1beta1.PodGroupConditionType(report.IneffectiveFields))
				}
				if diff := cmp.Diff(tt.want, reported()); diff != "" {
					t.Errorf("condition (-want +got):\n%s", diff)
				}
				if tt.corrected == nil {
					return
				}
				w.add(tt.corrected.Obj())
				if got := reported(); got != "" {
					t.Errorf("condition of the corrected PodGroup: %q", got)
				}
			})
		})
	}
}
