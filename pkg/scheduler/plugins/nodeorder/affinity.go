// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// preferences are the preferred affinity and anti-affinity terms of the pods on the nodes. They count for pods without
// affinity too.
type preferences struct {
	session *session
	terms   []*fwk.AffinityTerm
	// stale is true if the terms are to be gathered anew.
	stale bool
}

// podsPreferred is true if the pod's scores have to do with pod affinity: its own, or that of a pod on some node.
// Required terms have no part in scores, unless they cannot be read.
func (s *session) podsPreferred(p *pod) bool {
	if s.podAffinity == 0 {
		return false
	}
	return p.prefersPods || p.malformedAffinity || s.preferences.concern(p.Pod)
}

// placed notes that the pod came or went.
func (f *preferences) placed(p *v1.Pod) { f.stale = f.stale || prefersPods(p) }

// concern is true if a term selects the pod. It may then be that the term moves no score, since its topology key is
// on no node.
func (f *preferences) concern(p *v1.Pod) bool {
	if f.stale {
		f.gather()
	}
	if len(f.terms) == 0 {
		return false
	}
	var namespace labels.Set
	if ns, err := f.session.factory.Core().V1().Namespaces().Lister().Get(p.Namespace); err == nil {
		namespace = ns.Labels
	}
	for _, term := range f.terms {
		if term.Matches(p, namespace) {
			return true
		}
	}
	return false
}

// gather looks at the nodes that had pods with affinity when the session was opened: upstream's snapshot does not
// learn of others.
func (f *preferences) gather() {
	f.terms, f.stale = nil, false
	nodes, _ := f.session.snapshot.NodeInfos().HavePodsWithAffinityList() // never fails
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
