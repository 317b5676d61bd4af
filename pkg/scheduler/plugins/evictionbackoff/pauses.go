// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// pauses keeps preempt and reclaim from nodes where resources are being released, for paused gangs: gangs whose
// namespaces have held idle resources for too long (framework.Pauser). allocate places a paused gang on idle resources
// only, so it would not place the gang's members on such nodes. Other gangs would then get the resources of pods that
// were evicted for members on other nodes. And a member that evicted a pod on such a node would hold other released
// resources until that pod has terminated. Nodes of the gang's own victims are still allowed.
type pauses struct {
	ssn *framework.Session
	of  *plugin
	// paused reports whether the job is paused.
	paused func(job *api.JobInfo) bool
	// avoided are the nodes that the gang of the current search must not use; nil if it may use all nodes.
	avoided map[string]bool
	// releasing are the nodes where resources were being released before the session's first search for a paused
	// gang. It is nil before that search.
	releasing map[string]bool
}

// setAvoided sets the avoided nodes for the gang of the task. It is called before each search for victims.
func (p *pauses) setAvoided(task *api.TaskInfo) {
	p.avoided = nil
	job := p.ssn.Jobs[task.Job]
	if job == nil || !evicts(p.ssn.Action) || !p.paused(job) {
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

// accepts is the plugin's predicate. It refuses the avoided nodes.
func (p *pauses) accepts(task *api.TaskInfo, node *api.NodeInfo) error {
	if !p.avoided[node.Name] {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, &api.Status{
		Code: api.UnschedulableAndUnresolvable, Reason: "node(s) with resources being released; only idle resources count for the gang now",
	})
}
