// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// perJobPlugins are the plugins whose results for a class apply to some jobs only (layer cachedPerJob), for jobs that share
// these results. The zero value stands for no plugins.
type perJobPlugins struct {
	layer []conf.Tier
	// as is passed to the plugins; nil if there are none.
	as *representative
}

// representative is the task that is passed to plugins whose results apply to some jobs only (PerJob). A result for
// this task applies to all tasks of its class in the jobs with the same key (candidatesKey.job).
type representative struct {
	task *api.TaskInfo
	// err is the error of the task's pre-predicate.
	err error
}

// filterResult returns the plugins' filter result on the node.
func (p perJobPlugins) filterResult(e *evaluator, node *api.NodeInfo) error {
	switch {
	case p.as == nil:
		return nil
	case p.as.err != nil:
		return p.as.err
	default:
		return e.predicate(p.layer, p.as.task, node)
	}
}

// nodeScore returns the sum of the scores that the plugins give to the node without comparing it with other nodes.
func (p perJobPlugins) nodeScore(e *evaluator, node *api.NodeInfo) float64 {
	if p.as == nil {
		return 0
	}
	return e.nodeScore(p.layer, p.as.task, node)
}

// addScoresTogether adds to total, by node name, the scores of the plugins that score several nodes in one call.
func (p perJobPlugins) addScoresTogether(e *evaluator, nodes []*api.NodeInfo, total map[string]float64) {
	if p.as != nil {
		e.addScoresTogether(p.layer, p.as.task, nodes, total)
	}
}
