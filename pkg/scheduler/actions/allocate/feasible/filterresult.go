// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	k8snodeaffinity "k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reasonPicker picks the reason of a refusal in a fixed order, whatever the order in which upstream called its predicates.
type reasonPicker struct {
	checks checks
	// required is the node selector and required node affinity of pod, the last pod that was asked about. It is kept because
	// many nodes in a row are explained for one pod.
	pod      *v1.Pod
	required nodeaffinity.RequiredNodeAffinity
}

// oneFilterResult makes a refusal independent of the order in which upstream called its predicates. Upstream calls them
// in the order of a map, and stops at the first refusal that no eviction resolves. So with several reasons, the result
// varies. oneFilterResult replaces all reasons by a reason that no eviction resolves, if one exists. Of several such
// reasons, it takes the first in a fixed order. If checking which of them applies would cost too much, it names all
// that may apply.
func (p *reasonPicker) oneFilterResult(task *api.TaskInfo, node *api.NodeInfo, err error) error {
	var fit *api.FitError
	if node.Node == nil || !errors.As(err, &fit) {
		return err
	}
	if reason := p.lastingReason(task.Pod, node.Node, fit); reason != "" {
		fit.Status = api.StatusSets{{Code: api.UnschedulableAndUnresolvable, Reason: reason}}
	}
	slices.SortStableFunc(fit.Status, func(l, r *api.Status) int { return strings.Compare(l.Reason, r.Reason) })
	return err
}

// lastingReason returns a reason of the Kubernetes predicates that no eviction resolves; empty if the refusal has none.
func (p *reasonPicker) lastingReason(pod *v1.Pod, node *v1.Node, fit *api.FitError) string {
	if forGood(fit) {
		taint, tainted := untolerated(pod, node)
		switch {
		case cordoned(pod, node):
			return nodeunschedulable.ErrReasonUnschedulable
		case p.checks.taints && tainted:
			return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", taint.Key, taint.Value)
		case p.checks.affinity && !p.selected(pod, node):
			return k8snodeaffinity.ErrReasonPod
		}
	}
	lasting := slices.IndexFunc(fit.Status, func(s *api.Status) bool {
		return s.Code == api.UnschedulableAndUnresolvable && strings.HasPrefix(s.Reason, "node(s) ")
	})
	if lasting < 0 {
		return ""
	}
	if possible := mayLast(pod, node); len(possible) > 1 {
		return "node(s) didn't match " + strings.Join(possible, " or ")
	}
	return fit.Status[lasting].Reason
}

// mayLast names the pod's rules that may be the reason for a refusal of the node that no eviction resolves. Cordoned
// nodes, taints, the node selector and node affinity are left out, because lastingReason checks them itself.
func mayLast(pod *v1.Pod, node *v1.Node) []string {
	var rules []string
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		rules = append(rules, "pod affinity rules")
	}
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		_, there := node.Labels[c.TopologyKey]
		return c.WhenUnsatisfiable == v1.DoNotSchedule && !there
	}) {
		rules = append(rules, "pod topology spread constraints (missing required label)")
	}
	if framework.HasClaims(pod) {
		rules = append(rules, "volumes")
	}
	return rules
}

func cordoned(pod *v1.Pod, node *v1.Node) bool {
	return node.Spec.Unschedulable && !v1helper.TolerationsTolerateTaint(pod.Spec.Tolerations,
		&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}

// untolerated returns the first taint of the node that the pod does not tolerate; false if there is none.
func untolerated(pod *v1.Pod, node *v1.Node) (v1.Taint, bool) {
	return v1helper.FindMatchingUntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	})
}

// selected reports whether the pod's node selector and required affinity match the node.
func (p *reasonPicker) selected(pod *v1.Pod, node *v1.Node) bool {
	if p.pod != pod {
		p.pod, p.required = pod, nodeaffinity.GetRequiredNodeAffinity(pod)
	}
	match, err := p.required.Match(node)
	return match && err == nil
}

// forGood reports whether the predicates plugin refused the node because of its labels, its taints or being cordoned.
// These do not change in a session.
func forGood(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == k8snodeaffinity.ErrReasonPod || reason == nodeunschedulable.ErrReasonUnschedulable ||
			strings.HasPrefix(reason, "node(s) had untolerated taint {")
	})
}

// hasAntiAffinity reports whether the refusal is due to required anti-affinity. Placing more pods does not resolve such a
// refusal.
func hasAntiAffinity(err error) bool {
	return refusedBecause(err, func(reason string) bool {
		return reason == interpodaffinity.ErrReasonAntiAffinityRulesNotMatch || reason == interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch
	})
}

func refusedBecause(err error, of func(reason string) bool) bool {
	var refusal *api.FitError
	return errors.As(err, &refusal) && slices.ContainsFunc(refusal.Status, func(s *api.Status) bool { return of(s.Reason) })
}
