// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// shortOf is the beginning of the reason why a node with too little of a resource refuses a task.
const shortOf = "short of "

// Refusals counts the nodes of a set by the reason why they do not take the next member of a gang. Each node counts
// once.
type Refusals struct {
	Reasons map[string]int
	// Filled is how many nodes are full because of members of the gang whose next member they refuse. filledOf are the
	// resources that these nodes are short of.
	Filled   int
	filledOf map[string]bool
	// Takes is how many nodes would take the next member of the gang.
	Takes int
	// free is the free amount of each resource on nodes that lack only that resource.
	free map[v1.ResourceName]free
}

// free is the free amount of a resource on nodes that lack only this resource: the largest amount on one of these
// nodes, and the total of all.
type free struct{ most, all float64 }

func newRefusals() *Refusals {
	return &Refusals{Reasons: map[string]int{}, filledOf: map[string]bool{}, free: map[v1.ResourceName]free{}}
}

// add counts the node by its reason. members reports whether the node has members of the gang: such a node counts as
// filled by the gang if it is short of a resource.
func (r *Refusals) add(reason string, node *api.NodeInfo, members bool) {
	if short, ok := strings.CutPrefix(reason, shortOf); ok {
		if members {
			r.fill(strings.Split(short, " and "))
			return
		}
		name := v1.ResourceName(short)
		here, has := max(0, FutureIdle(node).Get(name)), r.free[name]
		r.free[name] = free{most: max(has.most, here), all: has.all + here}
	}
	r.Reasons[reason]++
}

// addFragmentation adds the free amount of a resource to the reason of nodes that are short of it, if the total free
// amount would satisfy the request and the cluster has a node that is large enough.
func (r *Refusals) addFragmentation(request *api.Resource, index *nodeset.Index) *Refusals {
	for name, free := range r.free {
		reason, asked := shortOf+string(name), request.Get(name)
		if nodes := r.Reasons[reason]; nodes > 1 && asked > 0 && free.all >= asked && asked <= index.LargestNode().Get(name) {
			delete(r.Reasons, reason)
			r.Reasons[fmt.Sprintf("%s (at most %s free on a node, %s in all)", reason,
				quantity.Of(name, free.most), quantity.Of(name, free.all))] = nodes
		}
	}
	return r
}

func (r *Refusals) fill(resources []string) {
	r.Filled++
	for _, name := range resources {
		r.filledOf[name] = true
	}
}

// FilledOf returns, by name, the resources that nodes filled by the gang are short of.
func (r *Refusals) FilledOf() []string { return slices.Sorted(maps.Keys(r.filledOf)) }

// ShortReason returns the filter result err in few words.
func ShortReason(err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return ofNodes(err.Error())
	}
	var short, other []string
	for _, reason := range fit.Reasons() {
		switch resource, isShort := strings.CutPrefix(reason, "Insufficient "); {
		case isShort:
			short = append(short, resource)
		case reason == nodeunschedulable.ErrReasonUnschedulable:
			return "cordoned"
		default:
			other = append(other, ofNodes(reason))
		}
	}
	slices.Sort(other)
	if len(short) > 0 {
		slices.Sort(short)
		other = append([]string{shortOf + strings.Join(short, " and ")}, other...)
	}
	return strings.Join(slices.Compact(other), ", ")
}

// ofNodes rewrites a reason so that it can follow a number of nodes: "without a free device for claim c", where the
// plugin says "claim c: node(s) without a free device". For a taint it keeps only the key, because values may differ from
// node to node.
func ofNodes(reason string) string {
	if _, taint, tainted := strings.Cut(reason, "untolerated taint"); tainted {
		_, key, _ := strings.Cut(taint, "{")
		key, _, _ = strings.Cut(key, ":")
		switch key = strings.TrimSpace(key); key {
		case "":
			return "tainted"
		case v1.TaintNodeNotReady:
			return "not ready"
		case v1.TaintNodeUnreachable:
			return "unreachable"
		default:
			return "tainted " + brief.Value(key)
		}
	}
	if subject, state, ok := strings.Cut(reason, ": node(s) "); ok {
		if state, ok := strings.CutSuffix(state, " for it"); ok {
			return state + " for " + subject
		}
		return state + ": " + subject
	}
	return strings.TrimPrefix(reason, "node(s) ")
}
