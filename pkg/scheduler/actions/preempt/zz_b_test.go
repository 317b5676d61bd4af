package preempt

import "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

func netTopo(tier int) *v1beta1.NetworkTopologySpec {
	return &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
}
