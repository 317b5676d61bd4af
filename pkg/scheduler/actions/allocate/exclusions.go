// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// exclusions are the required anti-affinity terms of pods placed in this session. The Kubernetes predicate keeps a list
// of the nodes with such pods from the session's beginning, so pods that have no affinity of their own would not be kept
// away from them.
//
// Equal terms are one exclusion, since members of a gang have the same ones: a task is matched once against each.
type exclusions struct {
	ssn   *framework.Session
	on    bool
	terms map[string]*exclusion
	held  map[api.TaskID][]hold
	// version counts the exclusions that came. matching are those of that version that match the task last asked for, which
	// is asked for on many nodes; one that went has no holders.
	version  int
	matching struct {
		task    *api.TaskInfo
		version int
		terms   []*exclusion
	}
}

// exclusion is a term that placed tasks have.
type exclusion struct {
	fwk.AffinityTerm
	key string
	// holders is how many terms of placed tasks there are by the value of the topology label. None is 0.
	holders map[string]int
}

// hold is a term of a placed task and its node's value of the topology label.
type hold struct {
	*exclusion
	value string
}

func newExclusions(ssn *framework.Session) *exclusions {
	e := &exclusions{ssn: ssn, terms: map[string]*exclusion{}, held: map[api.TaskID][]hold{}}
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
	if !e.on {
		return
	}
	terms := k8sframework.GetPodAntiAffinityTerms(task.Pod.Spec.Affinity)
	for i := range terms {
		value, ok := node.Node.Labels[terms[i].TopologyKey]
		if !ok {
			continue
		}
		if term := e.term(task.Pod, &terms[i]); term != nil {
			term.holders[value]++
			e.held[task.UID] = append(e.held[task.UID], hold{term, value})
		}
	}
}

// term returns the exclusion for the pod's term; nil when it cannot be read, and the predicate has refused the pod
// everywhere.
func (e *exclusions) term(pod *v1.Pod, term *v1.PodAffinityTerm) *exclusion {
	key := string(appendMessage(appendString(nil, pod.Namespace), term)) // without namespaces it means the pod's
	if known, ok := e.terms[key]; ok {
		return known
	}
	parsed, err := k8sframework.GetAffinityTerms(pod, []v1.PodAffinityTerm{*term})
	if err != nil {
		return nil
	}
	made := &exclusion{AffinityTerm: parsed[0], key: key, holders: map[string]int{}}
	e.terms[key] = made
	e.version++
	return made
}

// remove takes out a task whose trial was dropped.
func (e *exclusions) remove(task *api.TaskInfo) {
	for _, h := range e.held[task.UID] {
		if h.holders[h.value]--; h.holders[h.value] > 0 {
			continue
		}
		delete(h.holders, h.value)
		if len(h.holders) == 0 {
			delete(e.terms, h.key)
		}
	}
	delete(e.held, task.UID)
}

// refuses returns the verdict on a node where another placed pod keeps the task away, nil elsewhere.
func (e *exclusions) refuses(task *api.TaskInfo, node *api.NodeInfo) error {
	for _, term := range e.against(task) {
		value, ok := node.Node.Labels[term.TopologyKey]
		if ok && term.holders[value] > e.own(task, hold{term, value}) {
			return api.NewFitErrWithStatus(task, node, &api.Status{
				Code:   api.Unschedulable,
				Reason: interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch,
				Plugin: predicates.PluginName,
			})
		}
	}
	return nil
}

// own is how many of the holders are the task itself.
func (e *exclusions) own(task *api.TaskInfo, of hold) (n int) {
	for _, h := range e.held[task.UID] {
		if h == of {
			n++
		}
	}
	return n
}

// against returns the exclusions that match the task.
func (e *exclusions) against(task *api.TaskInfo) []*exclusion {
	m := &e.matching
	if m.task == task && m.version == e.version {
		return m.terms
	}
	m.task, m.version, m.terms = task, e.version, nil
	if len(e.terms) == 0 {
		return nil
	}
	namespace := e.namespaceLabels(task.Namespace)
	for _, term := range e.terms {
		if term.Matches(task.Pod, namespace) {
			m.terms = append(m.terms, term)
		}
	}
	return m.terms
}

func (e *exclusions) namespaceLabels(name string) labels.Set {
	namespace, err := e.ssn.InformerFactory().Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}
