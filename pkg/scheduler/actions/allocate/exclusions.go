package allocate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// exclusions are the required anti-affinity terms of pods placed in this session. The Kubernetes predicate keeps a list
// of the nodes with such pods from the session's beginning, so pods that have no affinity of their own would not be kept
// away from them.
type exclusions struct {
	ssn   *framework.Session
	on    bool
	terms map[api.TaskID][]exclusion
}

type exclusion struct {
	fwk.AffinityTerm
	// value is what the node's topology label has.
	value string
}

func newExclusions(ssn *framework.Session) *exclusions {
	e := &exclusions{ssn: ssn, terms: map[api.TaskID][]exclusion{}}
	for _, tier := range ssn.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == predicates.PluginName && option.EnabledPredicate != nil && *option.EnabledPredicate {
				e.on = true
				framework.Arguments(option.Arguments).GetBool(&e.on, predicates.PodAffinityEnable)
			}
		}
	}
	return e
}

// place takes in a task that was placed.
func (e *exclusions) place(task *api.TaskInfo, node *api.NodeInfo) {
	a := task.Pod.Spec.Affinity
	if !e.on || a == nil || a.PodAntiAffinity == nil || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
		return
	}
	info, err := k8sframework.NewPodInfo(task.Pod)
	if err != nil {
		return // the predicate has refused it everywhere
	}
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		if value, ok := node.Node.Labels[term.TopologyKey]; ok {
			e.terms[task.UID] = append(e.terms[task.UID], exclusion{term, value})
		}
	}
}

// remove takes out a task whose trial was dropped.
func (e *exclusions) remove(task *api.TaskInfo) { delete(e.terms, task.UID) }

// concern says whether a placed pod keeps the task away from it.
func (e *exclusions) concern(task *api.TaskInfo) bool {
	for uid := range e.terms {
		if uid != task.UID && e.matches(uid, task.Pod, nil) {
			return true
		}
	}
	return false
}

// refuses returns the verdict on a node where a placed pod keeps the task away, nil elsewhere.
func (e *exclusions) refuses(task *api.TaskInfo, node *api.NodeInfo) error {
	for uid := range e.terms {
		if uid != task.UID && e.matches(uid, task.Pod, node) {
			return api.NewFitErrWithStatus(task, node, &api.Status{
				Code:   api.Unschedulable,
				Reason: "node(s) didn't satisfy existing pods anti-affinity rules",
				Plugin: predicates.PluginName,
			})
		}
	}
	return nil
}

// matches says whether a term of the placed task matches the pod, on the node when one is given.
func (e *exclusions) matches(placed api.TaskID, pod *v1.Pod, node *api.NodeInfo) bool {
	for i := range e.terms[placed] {
		term := &e.terms[placed][i]
		if node != nil && node.Node.Labels[term.TopologyKey] != term.value {
			continue
		}
		if term.Matches(pod, e.namespaceLabels(pod.Namespace)) {
			return true
		}
	}
	return false
}

func (e *exclusions) namespaceLabels(name string) labels.Set {
	namespace, err := e.ssn.InformerFactory().Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}
