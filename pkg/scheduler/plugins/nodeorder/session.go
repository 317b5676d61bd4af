// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/util/k8s"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// session is the plugin's state in one session. Upstream's actions may call nodeOrder from several goroutines. All
// other functions are called only on the scheduling goroutine.
type session struct {
	framework.DefaultSigner
	weights
	// nodes are the session's nodes with the tasks placed on them. The predicates plugin keeps them up to date.
	nodes map[string]fwk.NodeInfo
	// snapshot has the nodes in the same state in which upstream's plugin would have read them when the session
	// opened.
	snapshot *k8s.Snapshot

	pods        sync.Map // *v1.Pod to *pod
	preferences preferences
	spread      spread
	constant    constantScores
	untainted   func() bool
	delegate    func() *upstream.NodeOrderPlugin
}

func newSession(p *plugin, ssn *framework.Session) *session {
	s := &session{weights: p.weights, nodes: ssn.NodeMap, snapshot: k8s.NewSnapshot(ssn.NodeMap)}
	s.preferences = preferences{snapshot: s.snapshot, factory: ssn.InformerFactory(), stale: true}
	s.spread = spread{
		nodes: s.nodes, factory: ssn.InformerFactory(), uniform: sync.OnceValue(s.uniform), services: map[string]serviceIndex{}, tallies: map[tallyKey]*tally{},
	}
	s.untainted = sync.OnceValue(s.noneShuns)
	s.delegate = sync.OnceValue(func() *upstream.NodeOrderPlugin { return upstreamOn(ssn, s.snapshot, p.args) })
	return s
}

// all returns the session's nodes.
func (s *session) all() []fwk.NodeInfo {
	nodes, _ := s.snapshot.NodeInfos().List() // never fails
	return nodes
}

// pod returns the data that scores of pod p depend on. It is cached for the session.
func (s *session) pod(p *v1.Pod) *pod {
	if known, ok := s.pods.Load(p); ok {
		return known.(*pod)
	}
	known, _ := s.pods.LoadOrStore(p, newPod(p))
	return known.(*pod)
}

// placed must be called when the event's task was added to or removed from a node. It updates the data on affinity
// and spread.
func (s *session) placed(event *vcframework.Event) {
	s.preferences.placed(event.Task.Pod)
	s.spread.placed(event.Task.NodeName)
}

// upstreamOn builds upstream's nodeorder plugin for the session.
func upstreamOn(ssn *framework.Session, snapshot *k8s.Snapshot, args framework.Arguments) *upstream.NodeOrderPlugin {
	p := upstream.New(args).(*upstream.NodeOrderPlugin)
	p.Handle = k8s.NewFramework(ssn.NodeMap,
		k8s.WithSnapshotSharedLister(snapshot), k8s.WithClientSet(ssn.KubeClient()), k8s.WithInformerFactory(ssn.InformerFactory()))
	p.InitPlugin()
	return p
}

// noneShuns reports whether no node has a PreferNoSchedule taint.
func (s *session) noneShuns() bool {
	for _, node := range s.all() {
		for _, taint := range node.Node().Spec.Taints {
			if taint.Effect == v1.TaintEffectPreferNoSchedule {
				return false
			}
		}
	}
	return true
}
