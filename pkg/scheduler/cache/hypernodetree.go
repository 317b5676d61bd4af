// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// claim has the members that a HyperNode lists or selects in its spec.
type claim struct {
	hyperNode *topologyv1alpha1.HyperNode
	// wrong lists the faults of the HyperNode's own spec, regardless of other HyperNodes.
	wrong []string
	// children are the names of the HyperNodes that are members of this one, each once.
	children []string
	// named are the nodes that the spec lists by name, whether they exist or not. match are functions that report
	// whether a selector of the spec selects a node.
	named sets.Set[string]
	match []func(*v1.Node) bool
	// nodes are all nodes in named, and the existing nodes for which a function in match returns true.
	nodes sets.Set[string]
}

// hyperNodeFault is a HyperNode that sessions leave out, with the reason.
type hyperNodeFault struct {
	hyperNode *topologyv1alpha1.HyperNode
	message   string
}

func readClaim(hyperNode *topologyv1alpha1.HyperNode) *claim {
	c := &claim{hyperNode: hyperNode, named: sets.New[string]()}
	for i, member := range hyperNode.Spec.Members {
		if err := c.add(member); err != nil {
			c.wrong = append(c.wrong, fmt.Sprintf("spec.members[%d]: %v", i, err))
		}
	}
	c.nodes = c.named.Clone()
	return c
}

// add adds a member of the HyperNode's spec to c. The error describes a fault of the member and a valid value.
func (c *claim) add(member topologyv1alpha1.MemberSpec) error {
	selector := member.Selector
	named := selector.ExactMatch != nil && selector.ExactMatch.Name != ""
	switch {
	case member.Type == topologyv1alpha1.MemberTypeHyperNode && named:
		if name := selector.ExactMatch.Name; !slices.Contains(c.children, name) {
			c.children = append(c.children, name)
		}
		return nil
	case member.Type == topologyv1alpha1.MemberTypeHyperNode:
		return fmt.Errorf("a member of type HyperNode needs selector.exactMatch.name")
	case member.Type != topologyv1alpha1.MemberTypeNode:
		return fmt.Errorf("type is %s, must be Node or HyperNode", brief.Value(string(member.Type)))
	case selector.RegexMatch != nil:
		pattern, err := regexp.Compile(selector.RegexMatch.Pattern)
		if err != nil {
			return fmt.Errorf("selector.regexMatch.pattern must be a regular expression of Go: %s", brief.Part(err.Error()))
		}
		c.match = append(c.match, func(node *v1.Node) bool { return pattern.MatchString(node.Name) })
		return nil
	case selector.LabelMatch != nil && len(selector.LabelMatch.MatchLabels)+len(selector.LabelMatch.MatchExpressions) > 0:
		match, err := metav1.LabelSelectorAsSelector(selector.LabelMatch)
		if err != nil {
			return fmt.Errorf("selector.labelMatch must be a label selector: %s", brief.Part(err.Error()))
		}
		c.match = append(c.match, func(node *v1.Node) bool { return match.Matches(labels.Set(node.Labels)) })
		return nil
	case named:
		c.named.Insert(selector.ExactMatch.Name)
		return nil
	}
	return fmt.Errorf("the selector selects nothing; set exactMatch.name, regexMatch.pattern, or a labelMatch with matchLabels or matchExpressions")
}

// matchNode updates c.nodes, the member nodes of a HyperNode, for a new, changed or deleted node. It reports whether
// the list changed. node is nil if the node was deleted. Nodes that the HyperNode's spec lists by name always stay.
func (c *claim) matchNode(name string, node *v1.Node) (changed bool) {
	mine := c.named.Has(name) || node != nil && slices.ContainsFunc(c.match, func(match func(*v1.Node) bool) bool { return match(node) })
	if mine == c.nodes.Has(name) {
		return false
	}
	if mine {
		c.nodes.Insert(name)
	} else {
		c.nodes.Delete(name)
	}
	return true
}

// tree returns the HyperNodes as sessions see them. byAge are all HyperNodes, the oldest first. A HyperNode is left out
// if it has a fault or contradicts older ones, so that a new HyperNode cannot harm existing ones. The result is a
// forest. A HyperNode that is left out or does not exist is a member of no other HyperNode.
func tree(byAge []*claim) (*api.HyperNodesInfo, []hyperNodeFault) {
	var faults []hyperNodeFault
	parents := map[string]string{}
	infos := map[string]*api.HyperNodeInfo{}
	var sound []*claim
	for _, c := range byAge {
		if wrong := append(slices.Clip(c.wrong), c.contradictions(parents)...); len(wrong) > 0 {
			faults = append(faults, hyperNodeFault{c.hyperNode, "ignored: " + brief.First(wrong)})
			continue
		}
		for _, child := range c.children {
			parents[child] = c.hyperNode.Name
		}
		sound = append(sound, c)
	}
	byTier, nodes := map[int]sets.Set[string]{}, map[string]sets.Set[string]{}
	for _, c := range sound {
		name, tier := c.hyperNode.Name, c.hyperNode.Spec.Tier
		infos[name] = api.NewHyperNodeInfo(c.hyperNode, api.ParentOpt(parents[name]))
		nodes[name] = sets.New[string]()
		if byTier[tier] == nil {
			byTier[tier] = sets.New[string]()
		}
		byTier[tier].Insert(name)
	}
	for _, c := range sound {
		name := c.hyperNode.Name
		if parent := parents[name]; parent != "" {
			infos[parent].Children.Insert(name)
		}
		for ; name != ""; name = parents[name] {
			nodes[name].Insert(c.nodes.UnsortedList()...)
		}
	}
	ready := &atomic.Bool{}
	ready.Store(true)
	return api.NewHyperNodesInfoWithCache(infos, byTier, nodes, ready), faults
}

// contradictions returns why the HyperNode of c conflicts with older HyperNodes: a child of it already has a parent, or
// the HyperNode would contain itself. parents maps each child of older HyperNodes to its parent, and contains no cycle.
func (c *claim) contradictions(parents map[string]string) (wrong []string) {
	name := c.hyperNode.Name
	around := sets.New[string]()
	for at := name; at != ""; at = parents[at] {
		around.Insert(at)
	}
	for _, child := range c.children {
		switch parent := parents[child]; {
		case parent != "":
			wrong = append(wrong, fmt.Sprintf("member HyperNode %s already belongs to HyperNode %s; a HyperNode can have one parent only",
				brief.Value(child), brief.Value(parent)))
		case around.Has(child):
			wrong = append(wrong, fmt.Sprintf("member HyperNode %s is this HyperNode or contains it; members must not form a cycle",
				brief.Value(child)))
		}
	}
	return wrong
}
