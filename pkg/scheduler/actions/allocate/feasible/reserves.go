// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reserves are the cpu and memory that resource-strategy-fit keeps free on each node for tasks that request a scarce
// resource of the node, in proportion to the idle amount of that resource. The reserves shrink when such tasks are
// placed. So a node that refuses a task may accept it after other members of its gang were placed there. If the refusal
// were cached, an upper bound of how many members fit would wrongly exclude the node.
type reserves struct {
	ssn *framework.Session
	// The field of has the resources that the configuration of upstream's plugin resource-strategy-fit calls scarce. It is
	// empty if the plugin reserves no part of nodes for pods that request them.
	of []v1.ResourceName
	// shrink reports, by job, whether a pending task of the job requests a scarce resource, so that placing it shrinks
	// the reserves.
	shrink map[api.JobID]bool
}

func newReserves(ssn *framework.Session) *reserves {
	r := &reserves{ssn: ssn, shrink: map[api.JobID]bool{}}
	option, found := ssn.PluginOption(resourcestrategyfit.PluginName)
	if !found {
		return r
	}
	proportional, _ := vcframework.Get[struct {
		Enable    bool
		Resources string
	}](option.Arguments, "proportional")
	if proportional.Enable {
		for name := range strings.SplitSeq(proportional.Resources, ",") {
			r.of = append(r.of, v1.ResourceName(strings.TrimSpace(name)))
		}
	}
	return r
}

// shrinkFor reports whether reserves apply to the task and other members of its gang may reduce them.
func (r *reserves) shrinkFor(task *api.TaskInfo) bool {
	if len(r.of) == 0 || r.askedBy(task) {
		return false
	}
	shrink, known := r.shrink[task.Job]
	if !known {
		for _, other := range r.ssn.Jobs[task.Job].TaskStatusIndex[api.Pending] {
			shrink = shrink || r.askedBy(other)
		}
		r.shrink[task.Job] = shrink
	}
	return shrink
}

func (r *reserves) askedBy(task *api.TaskInfo) bool {
	return slices.ContainsFunc(r.of, func(name v1.ResourceName) bool { return task.Resreq.ScalarResources[name] > 0 })
}
