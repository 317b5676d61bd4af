// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// NeededBy returns a function that reports whether the required pod affinity of the task selects another task. It returns
// nil if the task needs no other pod: it has no required pod affinity, or fulfils it alone because it selects itself.
func NeededBy(f *Finder, task *api.TaskInfo) func(other *api.TaskInfo) bool {
	if !f.evaluator.antiAffinity.enabled {
		return nil
	}
	terms, err := k8sframework.GetAffinityTerms(task.Pod, k8sframework.GetPodAffinityTerms(task.Pod.Spec.Affinity))
	if err != nil || len(terms) == 0 {
		return nil
	}
	selects := func(other *api.TaskInfo) bool {
		namespace := f.evaluator.antiAffinity.namespaceLabels(other.Namespace)
		return !slices.ContainsFunc(terms, func(term fwk.AffinityTerm) bool { return !term.Matches(other.Pod, namespace) })
	}
	if selects(task) {
		return nil
	}
	return selects
}
