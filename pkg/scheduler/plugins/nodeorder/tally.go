// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// tally is the number of pods of a namespace that a selector selects, by node and by zone. A gang's members have the
// same selector and are placed one after the other. So the tally is kept, and only the pods of changed nodes are
// counted again.
type tally struct {
	namespace string
	selector  labels.Selector
	// eligible matches the nodes that the pod to be placed may use by its node selector and required node affinity.
	// Only pods on these nodes count.
	eligible nodeaffinity.RequiredNodeAffinity

	nodes map[string]int64
	zones map[string]int64 // number of pods by zone; "" for nodes without a zone
	// seen is how many entries of spread.changed (the nodes whose pods have changed) this tally already includes.
	seen int
}

// tallyKey identifies a tally. nodes stands for the node selector and required node affinity of the pod to be placed.
type tallyKey struct{ namespace, selector, nodes string }

// tally returns the tally of the pods that the selector selects in the pod's namespace. selector is the default
// selector of the pod to be placed.
func (s *spread) tally(p *v1.Pod, selector labels.Selector) *tally {
	key := tallyKey{p.Namespace, selector.String(), wantedNodes(p)}
	if t, ok := s.tallies[key]; ok {
		return t
	}
	t := &tally{
		namespace: p.Namespace, selector: selector, eligible: nodeaffinity.GetRequiredNodeAffinity(p),
		nodes: map[string]int64{}, zones: map[string]int64{}, seen: len(s.changed),
	}
	for name := range s.nodes {
		s.count(t, name)
	}
	s.tallies[key] = t
	return t
}

// wantedNodes returns a key made of the pod's node selector and required node affinity; empty if the pod has neither.
func wantedNodes(p *v1.Pod) string {
	var wanted struct {
		Selector map[string]string
		Required *v1.NodeSelector
	}
	wanted.Selector = p.Spec.NodeSelector
	if affinity := p.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		wanted.Required = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if len(wanted.Selector) == 0 && wanted.Required == nil {
		return ""
	}
	text, _ := json.Marshal(wanted) // never fails
	return string(text)
}

// placed records that a task was added to or removed from the node.
func (s *spread) placed(node string) {
	if len(s.tallies) > 0 {
		s.changed = append(s.changed, node)
	}
}

// update counts again the nodes that changed since the last update of the tally.
func (s *spread) update(t *tally) {
	for _, node := range s.changed[t.seen:] {
		s.count(t, node)
	}
	t.seen = len(s.changed)
}

// count counts the node's pods again and updates the tally. Pods that are being deleted do not count.
func (s *spread) count(t *tally, name string) {
	node, ok := s.nodes[name]
	if !ok {
		return
	}
	if match, _ := t.eligible.Match(node.Node()); !match { // a node selector that cannot be parsed selects nothing
		return
	}
	var n int64
	for _, info := range node.GetPods() {
		p := info.GetPod()
		if p.Namespace == t.namespace && p.DeletionTimestamp == nil && t.selector.Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	if n == t.nodes[name] {
		return
	}
	t.zones[node.Node().Labels[v1.LabelTopologyZone]] += n - t.nodes[name]
	t.nodes[name] = n
}
