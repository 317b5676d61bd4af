// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"errors"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// shortOf begins the reason of a node that has too little left.
const shortOf = "short of "

// refusals count the nodes of a domain by why they do not take the next member of a gang, each node once.
type refusals struct {
	reasons map[string]int
	// filled is how many nodes are full because of members of this very gang, and of which resources they are then short.
	filled int
	of     map[string]bool
	// takes is how many nodes would take it.
	takes int
}

func newRefusals() *refusals { return &refusals{reasons: map[string]int{}, of: map[string]bool{}} }

// add counts a node. One that is short of something and has members of the gang is full because of them.
func (r *refusals) add(reason string, members bool) {
	if short, ok := strings.CutPrefix(reason, shortOf); ok && members {
		r.fill(strings.Split(short, " and "))
		return
	}
	r.reasons[reason]++
}

func (r *refusals) fill(resources []string) {
	r.filled++
	for _, name := range resources {
		r.of[name] = true
	}
}

// filledOf are the resources that nodes filled by the gang are short of, by name.
func (r *refusals) filledOf() []string { return slices.Sorted(maps.Keys(r.of)) }

// reasonOf puts a verdict on a node into few words. Upstream asks its predicates in the order of a map and stops at some of
// them, so of several reasons it gives now the one and then the other: what tells them apart is looked at here, in one order.
func (a *allocation) reasonOf(task *api.TaskInfo, node *api.NodeInfo, err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return err.Error()
	}
	if lasting(err) && node.Node != nil {
		switch {
		case cordoned(task.Pod, node.Node):
			return "cordoned"
		case a.taints && tainted(task.Pod, node.Node):
			return "tainted"
		case a.affinity && !a.selected(task.Pod, node.Node):
			return "didn't match Pod's node affinity/selector"
		}
	}
	var short, other []string
	for _, reason := range fit.Reasons() {
		switch resource, isShort := strings.CutPrefix(reason, "Insufficient "); {
		case isShort:
			short = append(short, resource)
		case strings.Contains(reason, "were unschedulable"):
			return "cordoned"
		case strings.Contains(reason, "untolerated taint"):
			other = append(other, "tainted")
		default:
			other = append(other, strings.TrimPrefix(reason, "node(s) ")) // of which a number is told
		}
	}
	slices.Sort(other)
	if len(short) > 0 {
		slices.Sort(short)
		other = append([]string{shortOf + strings.Join(short, " and ")}, other...)
	}
	return strings.Join(slices.Compact(other), ", ")
}

func cordoned(pod *v1.Pod, node *v1.Node) bool {
	return node.Spec.Unschedulable && !v1helper.TolerationsTolerateTaint(pod.Spec.Tolerations,
		&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}

func tainted(pod *v1.Pod, node *v1.Node) bool {
	_, found := v1helper.FindMatchingUntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	})
	return found
}

// selection is a pod's node selector and required affinity, read once for all nodes that are explained in a row.
type selection struct {
	pod      *v1.Pod
	required nodeaffinity.RequiredNodeAffinity
}

// selected says whether the pod's node selector and required affinity take the node.
func (a *allocation) selected(pod *v1.Pod, node *v1.Node) bool {
	if a.selection.pod != pod {
		a.selection = selection{pod, nodeaffinity.GetRequiredNodeAffinity(pod)}
	}
	match, err := a.selection.required.Match(node)
	return match && err == nil
}

// refusedReason is the reason of a node that the kept layers refuse.
func (a *allocation) refusedReason(s *shape, node int32, err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return err.Error()
	}
	words, ok := s.words[fit]
	if !ok {
		words = a.reasonOf(s.task, a.board.nodes[node], err)
		s.words[fit] = words
	}
	return words
}

// refusals counts the nodes of the domain by what stops the next task of the shape, when as many are placed as fit. Gangs of
// one shape that have no members yet share the count until a node of the domain changes.
func (a *allocation) refusals(s *shape, d *domain) *refusals {
	r := a.roomOf(s, d)
	shared := len(a.members.nodes) == 0
	if shared && r.refusals != nil {
		return r.refusals
	}
	counted := newRefusals()
	for _, node := range d.nodes {
		sm := a.ask(s, node)
		info := a.board.nodes[node]
		switch {
		case sm.err != nil:
			counted.add(a.refusedReason(s, node, sm.err), a.members.known[node])
		case sm.copies == 0:
			counted.add(releasedLater(s, info), false)
		default: // it takes some, and then is full
			counted.fill(fullOf(s, info, sm.copies))
		}
	}
	if shared {
		r.refusals = counted
	}
	return counted
}

// stopRefusals counts the nodes of the domain by what stops the task there as things stand in an attempt, which has placed
// members of the gang on the nodes of placed.
func (a *allocation) stopRefusals(task *api.TaskInfo, d *domain, placed map[int32]bool) *refusals {
	s := a.kindOf(task).shape
	if s == nil {
		return nil
	}
	f := a.fieldOf(s, d, task)
	asksLive := len(s.layers.live) > 0 || len(a.exclusions.against(task)) > 0
	counted := newRefusals()
	for _, node := range d.nodes {
		sm := a.ask(s, node)
		members := placed[node] || a.members.known[node]
		if sm.err != nil {
			counted.add(a.refusedReason(s, node, sm.err), members)
			continue
		}
		err := f.verdict(node)
		switch {
		case err != nil || !asksLive:
		case s.layers.remote && a.remote.task == task:
			err = a.remote.refused[node]
		default:
			err = a.liveVerdict(task, s, node)
		}
		switch {
		case err != nil:
			counted.add(a.reasonOf(task, a.board.nodes[node], err), members)
		case sm.copies == 0:
			counted.add(releasedLater(s, a.board.nodes[node]), false)
		default:
			counted.takes++
		}
	}
	return counted
}

// releasedLater is the reason of a node that has room once resources are released.
func releasedLater(s *shape, node *api.NodeInfo) string {
	_, missing := s.task.InitResreq.LessEqualWithResourcesName(node.Idle, api.Zero)
	slices.Sort(missing)
	return shortOf + strings.Join(missing, " and ") + " until it is released"
}

// fullOf are the resources that a node is short of after it has taken the copies that fit.
func fullOf(s *shape, node *api.NodeInfo, copies int32) []string {
	left := node.Idle.Clone()
	for range copies {
		left.SubWithoutAssert(s.task.InitResreq)
	}
	if _, short := s.task.InitResreq.LessEqualWithResourcesName(left, api.Zero); len(short) > 0 {
		return short
	}
	return []string{string(v1.ResourcePods)}
}
