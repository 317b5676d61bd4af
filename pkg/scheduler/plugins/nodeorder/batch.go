// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// batchNodeOrder returns the scores that depend on all candidates: pod affinity, tolerated taints and topology
// spread. Each of these scores is scaled by the best or worst candidate. batchNodeOrder returns an error if a term of
// the pod's affinity or of its spread constraints cannot be parsed.
func (s *session) batchNodeOrder(task *api.TaskInfo, candidates []*api.NodeInfo) (map[string]float64, error) {
	p := s.pod(task.Pod)
	how := s.spreadOf(p)
	if s.podsPreferred(p) || how.kind == spreadByPod {
		return s.delegate().BatchNodeOrderFn(task, candidates, k8sframework.NewCycleState())
	}

	var common int64 // the part of the score that is equal for all candidates
	var apart []int64
	switch {
	case s.taintToleration == 0:
	case s.untainted():
		common += maxScore * int64(s.taintToleration)
	default:
		apart = add(apart, tolerationScores(p, candidates), s.taintToleration)
	}
	switch how.kind {
	case spreadEvenly:
		common += maxScore * int64(s.podTopologySpread)
	case spreadOverZones:
		apart = add(apart, s.spread.zoneScores(how.tally, candidates), s.podTopologySpread)
	}
	if apart == nil {
		return s.constant.of(candidates, float64(common)), nil
	}
	scores := make(map[string]float64, len(candidates))
	for i, node := range candidates {
		scores[node.Name] = float64(common + apart[i])
	}
	return scores, nil
}

// add returns, for each node, its number in scores plus weight times its number in more. It stores the result in more.
func add(scores, more []int64, weight int) []int64 {
	for i := range more {
		more[i] *= int64(weight)
		if scores != nil {
			more[i] += scores[i]
		}
	}
	return more
}

// tolerationScores scores nodes by the number of PreferNoSchedule taints that the pod does not tolerate. The node
// with the most such taints scores 0; a node without such taints gets the highest score. (Kubernetes:
// TaintToleration.)
func tolerationScores(p *pod, candidates []*api.NodeInfo) []int64 {
	scores := make([]int64, len(candidates))
	var most int64
	for i, node := range candidates {
		scores[i] = untoleratedTaints(node.Node, p)
		most = max(most, scores[i])
	}
	for i, taints := range scores {
		scores[i] = maxScore
		if most != 0 {
			scores[i] -= maxScore * taints / most
		}
	}
	return scores
}

// untoleratedTaints counts the node's PreferNoSchedule taints that the pod does not tolerate.
func untoleratedTaints(node *v1.Node, p *pod) int64 {
	var n int64
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == v1.TaintEffectPreferNoSchedule && !v1helper.TolerationsTolerateTaint(p.Spec.Tolerations, taint) {
			n++
		}
	}
	return n
}

// constantScores caches the last result in which all candidates have the same score. If the next call has the same
// score and candidates, as often happens, it returns the same map again. Callers must not change the map.
type constantScores struct {
	nodes  []*api.NodeInfo
	score  float64
	scores map[string]float64
}

func (c *constantScores) of(nodes []*api.NodeInfo, score float64) map[string]float64 {
	if c.scores != nil && c.score == score && slices.Equal(c.nodes, nodes) {
		return c.scores
	}
	c.nodes, c.score, c.scores = append(c.nodes[:0], nodes...), score, make(map[string]float64, len(nodes))
	for _, node := range nodes {
		c.scores[node.Name] = score
	}
	return c.scores
}
