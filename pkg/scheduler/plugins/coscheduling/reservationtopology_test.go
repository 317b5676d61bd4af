// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func hyperNode(name string, nodes ...string) *topologyv1alpha1.HyperNode {
	made := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topologyv1alpha1.HyperNodeSpec{Tier: 1}}
	for _, node := range nodes {
		made.Spec.Members = append(made.Spec.Members, topologyv1alpha1.MemberSpec{Type: topologyv1alpha1.MemberTypeNode,
			Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: node}}})
	}
	return made
}

// TestNoNodesAreReservedForAHardTopology: the emptiest nodes are in two HyperNodes. A gang whose hard topology requires
// nodes of one HyperNode gets no reservation.
func TestNoNodesAreReservedForAHardTopology(t *testing.T) {
	tier := 1
	topology := func(mode v1beta1.NetworkTopologyMode) *v1beta1.NetworkTopologySpec {
		return &v1beta1.NetworkTopologySpec{Mode: mode, HighestTierAllowed: &tier}
	}
	tests := map[string]struct {
		of      func(spec *v1beta1.PodGroupSpec)
		reserve bool
	}{
		"the gang's": {of: func(spec *v1beta1.PodGroupSpec) { spec.NetworkTopology = topology(v1beta1.HardNetworkTopologyMode) }},
		"the gang's, by a tier's name": {of: func(spec *v1beta1.PodGroupSpec) {
			spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierName: "leaf"}
		}},
		"its sub-groups'": {of: func(spec *v1beta1.PodGroupSpec) {
			spec.SubGroupPolicy = []v1beta1.SubGroupPolicySpec{{Name: "all", NetworkTopology: topology(v1beta1.HardNetworkTopologyMode)}}
		}},
		"a hard one without a tier": {of: func(spec *v1beta1.PodGroupSpec) {
			spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode}
		}, reserve: true},
		"a soft one": {of: func(spec *v1beta1.PodGroupSpec) { spec.NetworkTopology = topology(v1beta1.SoftNetworkTopologyMode) }, reserve: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			given.HyperNodes = []*topologyv1alpha1.HyperNode{hyperNode("h0", "n0", "n1"), hyperNode("h1", "n2", "n3")}
			conf := strings.Replace(after5m(100), "- name: predicates", "- name: predicates\n  - name: network-topology-aware", 1)
			in(t, given, conf, func(t *testing.T, w *simulation) {
				w.stays("full-0", schedtest.Queue, "n0", "3")
				w.stays("full-1", schedtest.Queue, "n1", "1")
				w.stays("full-2", schedtest.Queue, "n2", "3")
				w.stays("full-3", schedtest.Queue, "n3", "1")
				group := schedtest.MakePodGroup().Name("big").Queue(schedtest.Queue).MinMember(2).Obj()
				group.CreationTimestamp = metav1.Now()
				tt.of(&group.Spec)
				w.cluster.Cache().AddPodGroupV1beta1(group)
				w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
				if tt.reserve {
					w.untilReserved("big")
					return
				}
				w.pass(12*time.Minute, time.Minute)
				got := w.condition("big", Reserved)
				if len(w.reserved()) > 0 || got.Reason != noNodesToReserve || !strings.Contains(got.Message, "hard network topology") {
					t.Errorf("the reserved nodes are %v, and the condition is %s: %s", w.reserved(), got.Reason, got.Message)
				}
			})
		})
	}
}
