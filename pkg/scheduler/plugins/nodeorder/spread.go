// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// podSpread is how topology spread affects the pod's scores.
type podSpread struct {
	kind  spreadKind
	tally *tally // for spreadOverZones
}

type spreadKind int

const (
	spreadUnknown spreadKind = iota
	// notSpread means that topology spread does not affect the pod's scores. Either no soft topology spread constraint
	// (ScheduleAnyway) applies to the pod, or the weight of the score is 0.
	notSpread
	// spreadEvenly means that Kubernetes' default topology spread constraints apply to the pod, but give all nodes the
	// same score.
	spreadEvenly
	// spreadOverZones means that Kubernetes' default topology spread constraints apply to the pod, and that scores of
	// nodes differ by zone.
	spreadOverZones
	// spreadByPod means that the pod itself has soft topology spread constraints (ScheduleAnyway).
	spreadByPod
)

// Kubernetes' default topology spread constraints have a maxSkew of 3 over hosts and of 5 over zones. Kubernetes'
// plugin PodTopologySpread adds maxSkew minus one to the score of a node.
const (
	hostScore = 3 - 1
	zoneScore = 5 - 1
)

// spread holds the data of a session for scores by topology spread. (Kubernetes: PodTopologySpread, system defaulting.)
//
// The default constraints apply to a pod without constraints of its own, if a Service or its ReplicaSet,
// ReplicationController or StatefulSet selects the pod. For example, each Volcano Job with the svc plugin has such a
// Service.
//
// Upstream gives Kubernetes' plugin the candidates without the pods on them, so pods on the same host do not count. A
// node's score depends only on the pods in its zone, and on whether it has the labels for zone and hostname.
type spread struct {
	// nodes are the session's nodes, by name.
	nodes   map[string]fwk.NodeInfo
	factory informers.SharedInformerFactory
	// uniform reports whether all nodes have the same zone or none has a zone, and all or none have a hostname label.
	// Spread by default constraints then gives all nodes equal scores, wherever pods are placed.
	uniform  func() bool
	services map[string]serviceIndex // by namespace
	tallies  map[tallyKey]*tally
	// changed lists the nodes to which a task was added, or from which a task was removed, in the order of these
	// changes. It begins when the first tally (the number of pods by node and zone) was made.
	changed []string
}

func (s *session) uniform() bool {
	nodes := s.all()
	for _, node := range nodes {
		if placeOf(node.Node()) != placeOf(nodes[0].Node()) {
			return false
		}
	}
	return true
}

// place has the labels of a node that Kubernetes' default topology spread constraints use.
type place struct {
	zone             string
	hasZone, hasHost bool
}

func placeOf(node *v1.Node) place {
	var p place
	p.zone, p.hasZone = node.Labels[v1.LabelTopologyZone]
	_, p.hasHost = node.Labels[v1.LabelHostname]
	return p
}

// spreadOf returns how topology spread affects the pod's scores.
func (s *session) spreadOf(p *pod) podSpread {
	if p.spread.kind == spreadUnknown {
		p.spread = s.classify(p.Pod)
	}
	return p.spread
}

func (s *session) classify(p *v1.Pod) podSpread {
	if s.podTopologySpread == 0 {
		return podSpread{kind: notSpread}
	}
	if constraints := p.Spec.TopologySpreadConstraints; len(constraints) > 0 {
		for i := range constraints {
			if constraints[i].WhenUnsatisfiable == v1.ScheduleAnyway {
				return podSpread{kind: spreadByPod}
			}
		}
		return podSpread{kind: notSpread}
	}
	selector := s.spread.defaultSelector(p)
	switch {
	case selector.Empty():
		return podSpread{kind: notSpread}
	case s.spread.uniform():
		return podSpread{kind: spreadEvenly}
	default:
		return podSpread{kind: spreadOverZones, tally: s.spread.tally(p, selector)}
	}
}

// spreadUncacheable reports whether the pod's spread score on a node depends on pods of other nodes. A constraint by
// hostname does not make it depend on them, because upstream counts no pods for such a constraint.
func (s *session) spreadUncacheable(p *v1.Pod) bool {
	switch s.classify(p).kind {
	case spreadOverZones:
		return true
	case spreadByPod:
		for i := range p.Spec.TopologySpreadConstraints {
			constraint := &p.Spec.TopologySpreadConstraints[i]
			if constraint.WhenUnsatisfiable == v1.ScheduleAnyway && constraint.TopologyKey != v1.LabelHostname {
				return true
			}
		}
	}
	return false
}

// zoneScores returns high scores for nodes in zones with few of the pods that the tally counts. The scores are scaled
// by the worst candidate.
func (s *spread) zoneScores(t *tally, candidates []*api.NodeInfo) []int64 {
	s.update(t)
	scores, places, zones := make([]int64, len(candidates)), make([]place, len(candidates)), map[string]bool{}
	for i, node := range candidates {
		places[i] = placeOf(node.Node)
		zones[places[i].zone] = true // all nodes without a zone count as one zone
	}
	weight := math.Log(float64(len(zones) + 2))
	least, most := int64(math.MaxInt64), int64(0)
	for i, place := range places {
		var score float64
		if place.hasHost {
			score += hostScore
		}
		if place.hasZone {
			score += float64(t.zones[place.zone])*weight + zoneScore
		}
		scores[i] = int64(math.Round(score))
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i, score := range scores {
		scores[i] = maxScore
		if most != 0 {
			scores[i] = maxScore * (most + least - score) / most
		}
	}
	return scores
}
