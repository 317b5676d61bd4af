// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// checks says which checks of upstream's predicates plugin the conf enables: number of pods, host ports, taints, and node
// selector with node affinity.
type checks struct{ podSlots, ports, taints, affinity bool }

func newChecks(ssn *framework.Session) (c checks) {
	option, found := ssn.PluginOption(predicates.PluginName)
	if !found || option.EnabledPredicate == nil || !*option.EnabledPredicate {
		return c
	}
	on := func(argument string) bool {
		enabled := true
		vcframework.Arguments(option.Arguments).GetBool(&enabled, argument)
		return enabled
	}
	return checks{
		podSlots: true, ports: on(predicates.NodePortsEnable),
		taints: on(predicates.TaintTolerationEnable), affinity: on(predicates.NodeAffinityEnable),
	}
}
