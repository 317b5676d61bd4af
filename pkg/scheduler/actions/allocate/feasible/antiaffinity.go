// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// sessionAntiAffinity holds the required anti-affinity terms of pods that were placed in this session. The Kubernetes
// predicate does not look for such terms again after the beginning of the session. So it does not keep a pod without
// affinity of its own away from pods that were placed later in the session.
//
// Equal terms, such as the terms of a gang's members, are stored once, so that a task is matched only once against each
// term.
type sessionAntiAffinity struct {
	ssn     *framework.Session
	enabled bool
	terms   map[string]*antiAffinityTerm
	// held are the terms of each placed task, with its node's value of the topology label.
	held map[api.TaskID][]heldTerm
	// removals counts the tasks that were taken back.
	removals int
	// version counts the terms that were added so far. matched caches the terms that match the task that was checked
	// last, because the same task is checked for many nodes in a row. The cached terms are valid while version is the
	// same. A term that was removed since has no holders, and so refuses no node.
	version int
	matched struct {
		task    *api.TaskInfo
		version int
		terms   []*antiAffinityTerm
	}
}

// antiAffinityTerm is a required anti-affinity term of tasks that were placed in the session.
type antiAffinityTerm struct {
	fwk.AffinityTerm
	key string
	// holders is how many placed tasks have the term, by the value of the topology label on their nodes. Entries of 0 are
	// removed.
	holders map[string]int
}

// heldTerm is a term of a placed task and its node's value of the topology label.
type heldTerm struct {
	*antiAffinityTerm
	value string
}

func newSessionAntiAffinity(ssn *framework.Session) *sessionAntiAffinity {
	s := &sessionAntiAffinity{ssn: ssn, terms: map[string]*antiAffinityTerm{}, held: map[api.TaskID][]heldTerm{}}
	option, found := ssn.PluginOption(predicates.PluginName)
	if found && option.EnabledPredicate != nil && *option.EnabledPredicate {
		s.enabled = true
		framework.Arguments(option.Arguments).GetBool(&s.enabled, predicates.PodAffinityEnable)
	}
	return s
}

// add records the anti-affinity terms of a task that was placed on the node.
func (s *sessionAntiAffinity) add(task *api.TaskInfo, node *api.NodeInfo) {
	if !s.enabled {
		return
	}
	terms := k8sframework.GetPodAntiAffinityTerms(task.Pod.Spec.Affinity)
	for i := range terms {
		value, ok := node.Node.Labels[terms[i].TopologyKey]
		if !ok {
			continue
		}
		if term := s.term(task.Pod, &terms[i]); term != nil {
			term.holders[value]++
			s.held[task.UID] = append(s.held[task.UID], heldTerm{term, value})
		}
	}
}

// term returns the entry in s.terms for the pod's term, and adds it if it is new. It returns nil if the term cannot be
// parsed: the predicates plugin refuses such a pod on every node anyway.
func (s *sessionAntiAffinity) term(pod *v1.Pod, term *v1.PodAffinityTerm) *antiAffinityTerm {
	// A term that names no namespaces applies to the pod's own namespace, so the key includes that namespace.
	key := string(appendMessage(keybytes.Text(nil, pod.Namespace), term))
	if known, ok := s.terms[key]; ok {
		return known
	}
	parsed, err := k8sframework.GetAffinityTerms(pod, []v1.PodAffinityTerm{*term})
	if err != nil {
		return nil
	}
	made := &antiAffinityTerm{AffinityTerm: parsed[0], key: key, holders: map[string]int{}}
	s.terms[key] = made
	s.version++
	return made
}

// remove removes the anti-affinity terms of a task that was taken back.
func (s *sessionAntiAffinity) remove(task *api.TaskInfo) {
	s.removals++
	for _, h := range s.held[task.UID] {
		if h.holders[h.value]--; h.holders[h.value] > 0 {
			continue
		}
		delete(h.holders, h.value)
		if len(h.holders) == 0 {
			delete(s.terms, h.key)
		}
	}
	delete(s.held, task.UID)
}

// filterResult returns an error if required anti-affinity of another pod placed in the session keeps the task off the
// node.
func (s *sessionAntiAffinity) filterResult(task *api.TaskInfo, node *api.NodeInfo) error {
	for _, term := range s.matching(task) {
		value, ok := node.Node.Labels[term.TopologyKey]
		if ok && term.holders[value] > s.heldBy(task, heldTerm{term, value}) {
			return api.NewFitErrWithStatus(task, node, &api.Status{
				Code:   api.Unschedulable,
				Reason: interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch,
				Plugin: predicates.PluginName,
			})
		}
	}
	return nil
}

// heldBy returns how often the task itself is counted as a holder of the anti-affinity term, on nodes with the term's
// value of the topology label.
func (s *sessionAntiAffinity) heldBy(task *api.TaskInfo, term heldTerm) (n int) {
	for _, h := range s.held[task.UID] {
		if h == term {
			n++
		}
	}
	return n
}

// matching returns the terms of placed tasks that match the task.
func (s *sessionAntiAffinity) matching(task *api.TaskInfo) []*antiAffinityTerm {
	m := &s.matched
	if m.task == task && m.version == s.version {
		return m.terms
	}
	m.task, m.version, m.terms = task, s.version, nil
	if len(s.terms) == 0 {
		return nil
	}
	namespace := s.namespaceLabels(task.Namespace)
	for _, term := range s.terms {
		if term.Matches(task.Pod, namespace) {
			m.terms = append(m.terms, term)
		}
	}
	return m.terms
}

// excludes reports whether required anti-affinity of task one keeps task other off the node of task one.
func (s *sessionAntiAffinity) excludes(one, other *api.TaskInfo) bool {
	if !s.enabled {
		return false
	}
	terms, err := k8sframework.GetAffinityTerms(one.Pod, k8sframework.GetPodAntiAffinityTerms(one.Pod.Spec.Affinity))
	return err == nil && slices.ContainsFunc(terms, func(term fwk.AffinityTerm) bool {
		return term.Matches(other.Pod, s.namespaceLabels(other.Namespace))
	})
}

func (s *sessionAntiAffinity) namespaceLabels(name string) labels.Set {
	namespace, err := s.ssn.InformerFactory().Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}
