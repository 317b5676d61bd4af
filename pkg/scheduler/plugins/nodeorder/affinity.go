// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util/k8s"
)

// preferences holds the preferred affinity and anti-affinity terms of the pods on nodes. These terms also affect the
// scores of other pods that have no pod affinity.
type preferences struct {
	snapshot *k8s.Snapshot
	factory  informers.SharedInformerFactory
	terms    []*fwk.AffinityTerm
	// stale reports whether the terms must be read from the nodes again.
	stale bool
}

// podsPreferred reports whether pod affinity affects the pod's scores. The pod's own preferred terms affect them, and
// so do preferred terms of pods on nodes, if the terms select the pod. Required terms do not affect scores, except by
// an error if they cannot be parsed.
func (s *session) podsPreferred(p *pod) bool {
	if s.podAffinity == 0 {
		return false
	}
	return p.prefersPods || p.malformedAffinity || s.preferences.concern(p.Pod)
}

// placed must be called when the pod was added to or removed from a node. If the pod has preferred affinity or
// anti-affinity to pods, the terms of all pods are read again later.
func (f *preferences) placed(p *v1.Pod) { f.stale = f.stale || prefersPods(p) }

// concern reports whether a preferred term of a pod on a node selects pod p. It may return true although the term
// does not affect scores, because no node has the term's topology key.
func (f *preferences) concern(p *v1.Pod) bool {
	if f.stale {
		f.gather()
	}
	if len(f.terms) == 0 {
		return false
	}
	var namespace labels.Set
	if ns, err := f.factory.Core().V1().Namespaces().Lister().Get(p.Namespace); err == nil {
		namespace = ns.Labels
	}
	for _, term := range f.terms {
		if term.Matches(p, namespace) {
			return true
		}
	}
	return false
}

// gather reads the preferred terms of pods on nodes. It reads only nodes that had pods with affinity when the session
// opened, because upstream's plugin also reads only these nodes.
func (f *preferences) gather() {
	f.terms, f.stale = nil, false
	nodes, _ := f.snapshot.NodeInfos().HavePodsWithAffinityList() // never fails
	for _, node := range nodes {
		for _, p := range node.GetPodsWithAffinity() {
			for _, terms := range [][]fwk.WeightedAffinityTerm{p.GetPreferredAffinityTerms(), p.GetPreferredAntiAffinityTerms()} {
				for i := range terms {
					f.terms = append(f.terms, &terms[i].AffinityTerm)
				}
			}
		}
	}
}
