// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// pauses keep paused gangs off nodes where resources are being released, except nodes of their own victims. allocate
// would not place their members there, and other gangs would get the resources of pods that are evicted for the gang's
// other members. And a member that evicted a pod there would keep the resources of other pods until that pod terminates.
type pauses struct {
	ssn *framework.Session
	of  *plugin
	// avoided are the nodes that the current search's gang cannot use; nil for none.
	avoided map[string]bool
	// releasing are the nodes where resources were being released before the first search for such a gang; nil before
	// that.
	releasing map[string]bool
}

// begin starts the search for the task's gang.
func (p *pauses) begin(task *api.TaskInfo) {
	p.avoided = nil
	job := p.ssn.Jobs[task.Job]
	if job == nil || !evicts(p.ssn.Action) || p.ssn.Pauses == nil || !p.ssn.Pauses.Paused(job) {
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
	if len(p.of.promised[job.UID]) > 0 {
		p.avoided = maps.Clone(p.releasing)
		for node := range p.of.claims[job.UID].nodes {
			delete(p.avoided, node)
		}
	}
}

// accepts is the predicate.
func (p *pauses) accepts(task *api.TaskInfo, node *api.NodeInfo) error {
	if !p.avoided[node.Name] {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, &api.Status{
		Code: api.UnschedulableAndUnresolvable, Reason: "resources are being released on the node, but only idle resources count for the gang now",
	})
}
