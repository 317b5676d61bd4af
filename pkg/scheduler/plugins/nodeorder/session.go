// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/util/k8s"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// session is the plugin's state in one session. Upstream's actions may score nodes from several goroutines; everything
// else is called on the scheduling goroutine.
type session struct {
	framework.DefaultSigner
	weights
	args framework.Arguments
	// nodes are the session's nodes with the tasks placed on them, kept current by the predicates plugin.
	nodes map[string]fwk.NodeInfo
	// snapshot lists the nodes as upstream's plugin would have found them when the session opened.
	snapshot *k8s.Snapshot
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory

	pods        sync.Map // *v1.Pod to *pod
	preferences preferences
	spread      spread
	constant    constantScores
	untainted   func() bool
	delegate    func() *upstream.NodeOrderPlugin
}

func newSession(p *plugin, ssn *framework.Session) *session {
	s := &session{
		weights: p.weights, args: p.args, nodes: ssn.NodeMap, snapshot: k8s.NewSnapshot(ssn.NodeMap),
		client: ssn.KubeClient(), factory: ssn.InformerFactory(),
	}
	s.preferences = preferences{session: s, stale: true}
	s.spread = newSpread(s)
	s.untainted = sync.OnceValue(s.noneShuns)
	s.delegate = sync.OnceValue(s.upstream)
	return s
}

// all lists the session's nodes.
func (s *session) all() []fwk.NodeInfo {
	nodes, _ := s.snapshot.NodeInfos().List() // never fails
	return nodes
}

// pod returns the data for scoring the pod.
func (s *session) pod(p *v1.Pod) *pod {
	if known, ok := s.pods.Load(p); ok {
		return known.(*pod)
	}
	known, _ := s.pods.LoadOrStore(p, newPod(p))
	return known.(*pod)
}

// placed records that a task was added to or removed from its node.
func (s *session) placed(event *vcframework.Event) {
	s.preferences.placed(event.Task.Pod)
	s.spread.placed(event.Task.NodeName)
}

// upstream builds upstream's plugin on the session.
func (s *session) upstream() *upstream.NodeOrderPlugin {
	p := upstream.New(s.args).(*upstream.NodeOrderPlugin)
	p.Handle = k8s.NewFramework(s.nodes,
		k8s.WithSnapshotSharedLister(s.snapshot), k8s.WithClientSet(s.client), k8s.WithInformerFactory(s.factory))
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
