// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// nodeLabels indexes the session's nodes by their labels, to find the nodes that reach a volume. It would take too long to check
// all nodes for each volume. For example, there may be thousands of local volumes, each on a different node.
type nodeLabels struct {
	nodes []*v1.Node
	// by are the nodes, by label key and by label value. It has only the label keys that were looked up.
	by map[string]map[string]*nodeSet
	// reached caches the nodes that reach a volume, by the marshaled node affinity of the volume, unless the affinity names one
	// value of one label (labelValue). everywhere has all nodes, for volumes without node affinity.
	reached    map[string]*nodeSet
	everywhere *nodeSet
}

// nodeSet holds the nodes that reach a volume. Volumes with equal node affinity share one nodeSet.
type nodeSet struct{ nodes []*v1.Node }

func newNodeLabels(infos map[string]*api.NodeInfo) *nodeLabels {
	l := &nodeLabels{by: map[string]map[string]*nodeSet{}, reached: map[string]*nodeSet{}}
	for _, info := range infos {
		if info.Node != nil {
			l.nodes = append(l.nodes, info.Node)
		}
	}
	slices.SortFunc(l.nodes, func(l, r *v1.Node) int { return cmp.Compare(l.Name, r.Name) })
	l.everywhere = &nodeSet{l.nodes}
	return l
}

// having returns the nodes whose label with the key has the value.
func (l *nodeLabels) having(key, value string) *nodeSet {
	by := l.by[key]
	if by == nil {
		by = map[string]*nodeSet{}
		for _, node := range l.nodes {
			value, ok := node.Labels[key]
			if !ok {
				continue
			}
			if by[value] == nil {
				by[value] = &nodeSet{}
			}
			by[value].nodes = append(by[value].nodes, node)
		}
		l.by[key] = by
	}
	if by[value] == nil {
		by[value] = &nodeSet{}
	}
	return by[value]
}

// reaching returns the nodes that reach the volume.
func (l *nodeLabels) reaching(pv *v1.PersistentVolume) *nodeSet {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return l.everywhere
	}
	if key, value, ok := labelValue(affinity.Required); ok {
		return l.having(key, value)
	}
	bytes, err := affinity.Marshal()
	if err != nil {
		return &nodeSet{l.matching(pv)}
	}
	set, known := l.reached[string(bytes)]
	if !known {
		set = &nodeSet{l.matching(pv)}
		l.reached[string(bytes)] = set
	}
	return set
}

// matching returns the nodes whose labels match the node affinity of the volume. The node affinity must not be nil.
func (l *nodeLabels) matching(pv *v1.PersistentVolume) []*v1.Node {
	among := l.nodes
	if key, values, ok := labelNeeded(pv.Spec.NodeAffinity.Required); ok {
		among = nil
		for _, value := range values {
			among = append(among, l.having(key, value).nodes...)
		}
	}
	return filter(among, func(node *v1.Node) bool { return volume.CheckNodeAffinity(pv, node.Labels) == nil })
}

// labelValue returns the label key and value that a node must have to match the selector, and no more. ok is false if the selector
// is not so simple. Selectors of local volumes are.
func labelValue(selector *v1.NodeSelector) (key, value string, ok bool) {
	if len(selector.NodeSelectorTerms) != 1 {
		return "", "", false
	}
	term := selector.NodeSelectorTerms[0]
	if len(term.MatchFields) > 0 || len(term.MatchExpressions) != 1 {
		return "", "", false
	}
	r := term.MatchExpressions[0]
	if r.Operator != v1.NodeSelectorOpIn || len(r.Values) != 1 {
		return "", "", false
	}
	return r.Key, r.Values[0], true
}

// labelNeeded returns a label key and values of which a node must have one to match the selector. ok is false if the selector has
// several terms, or no requirement with operator In.
func labelNeeded(selector *v1.NodeSelector) (key string, values []string, ok bool) {
	if len(selector.NodeSelectorTerms) != 1 {
		return "", nil, false
	}
	for _, r := range selector.NodeSelectorTerms[0].MatchExpressions {
		if r.Operator == v1.NodeSelectorOpIn && len(r.Values) > 0 {
			return r.Key, slices.Compact(slices.Sorted(slices.Values(r.Values))), true
		}
	}
	return "", nil, false
}

// selected returns the nodes that the label selector matches. It returns no nodes for an invalid selector, like Kubernetes' volume
// binder.
func (l *nodeLabels) selected(selector *metav1.LabelSelector) []*v1.Node {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	among := l.nodes
	for key, value := range selector.MatchLabels {
		among = l.having(key, value).nodes
		break
	}
	return filter(among, func(node *v1.Node) bool { return parsed.Matches(labels.Set(node.Labels)) })
}

func filter(nodes []*v1.Node, of func(*v1.Node) bool) []*v1.Node {
	var out []*v1.Node
	for _, node := range nodes {
		if of(node) {
			out = append(out, node)
		}
	}
	return out
}
