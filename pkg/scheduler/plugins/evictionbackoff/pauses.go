// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// pauses keeps preempt and reclaim from nodes where resources are being released, for gangs that allocate currently
// places on idle resources only (framework.Pauses). allocate would not place the gang's members on such nodes, so that
// other gangs would get the resources of pods evicted for the gang's other members.
type pauses struct {
	ssn *framework.Session
	// avoided are the nodes that the gang of the current search cannot use; nil for none.
	avoided map[string]bool
	// releasing are the nodes where resources were being released before the session's first search for such a gang; nil
	// before that search.
	releasing map[string]bool
}

// begin sets the avoided nodes for the gang of the task. It is called at the beginning of each search for victims.
func (p *pauses) begin(task *api.TaskInfo) {
	p.avoided = nil
	job := p.ssn.Jobs[task.Job]
	if job == nil || !evicts(p.ssn.Action) || p.ssn.Pauses == nil || !p.ssn.Pauses.IdleOnly(job) {
		return
	}
	if p.releasing == nil {
		p.releasing = map[string]bool{}
		for name, node := range p.ssn.Nodes {
			if !node.Releasing.IsEmpty() {
				p.releasing[name] = true
			}
		}
	}
	p.avoided = p.releasing
}

// accepts is the plugin's predicate. It refuses the avoided nodes.
func (p *pauses) accepts(task *api.TaskInfo, node *api.NodeInfo) error {
	if !p.avoided[node.Name] {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, &api.Status{
		Code: api.UnschedulableAndUnresolvable, Reason: "resources are being released on the node, but only idle resources count for the gang now",
	})
}
