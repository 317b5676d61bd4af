// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// pathOf returns the path of the domain around the node in which the whole gang must be placed: the names of this domain and of
// the wider domains around it, the widest first. must is the number of names in the path.
func pathOf(domains []string, node string, must int) []string {
	if must > len(domains) {
		return append(slices.Clip(domains), node)
	}
	return domains[:must]
}

// domainOf returns the path of pathOf as one name.
func domainOf(domains []string, node string, must int) string {
	return strings.Join(pathOf(domains, node, must), "/")
}

// requiredDomain returns the domain that holds the gang's placed members, or most of them; empty if no member is placed. Of
// several domains with equally many members it returns the first by path, as package topologyplan does.
func (n *network) requiredDomain(job *api.JobInfo, a *gathered) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.known {
		return a.requiredDomain
	}
	counts := map[string]int{}
	paths := map[string][]string{}
	for _, status := range placed {
		for _, task := range job.TaskStatusIndex[status] {
			if domains, ok := n.domains[task.NodeName]; ok {
				name := domainOf(domains, task.NodeName, a.must)
				counts[name]++
				paths[name] = pathOf(domains, task.NodeName, a.must)
			}
		}
	}
	a.requiredDomain, a.known = "", true
	for name, count := range counts {
		if cmp.Or(cmp.Compare(counts[a.requiredDomain], count), slices.Compare(paths[name], paths[a.requiredDomain])) < 0 {
			a.requiredDomain = name
		}
	}
	return a.requiredDomain
}

// domainsFor returns the domains in which the gang may be placed; none if the gang need not be in one domain.
func (n *network) domainsFor(job *api.JobInfo) []place {
	if n == nil || n.asking[job.UID] == nil || n.asking[job.UID].must == 0 {
		return nil
	}
	a := n.asking[job.UID]
	required := n.requiredDomain(job, a)
	nodes := map[string][]string{}
	for name, domains := range n.domains {
		if in := domainOf(domains, name, a.must); required == "" || in == required {
			nodes[in] = append(nodes[in], name)
		}
	}
	var out []place
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, place{a.rules[a.must].Name + " " + name, slices.Sorted(slices.Values(nodes[name]))})
	}
	return out
}

// predicate refuses a node outside of the domain in which the member's gang must be placed, for actions that do not support
// topology rules. It also refuses nodes to evicting actions if the evictions would not let the gang be bound.
func (n *network) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if n == nil || n.asking[task.Job] == nil {
		return nil
	}
	reason := n.refusal(n.asking[task.Job], task, node)
	if reason == "" {
		return nil
	}
	// No eviction resolves the refusal: the domain may follow from members that were placed in this session and may be reverted,
	// while an eviction is final.
	return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: reason})
}

// refusal returns the reason why the gang's member may not be placed on the node; empty if it may.
func (n *network) refusal(a *gathered, task *api.TaskInfo, node *api.NodeInfo) string {
	switch {
	case a.err != nil:
		return "network topology requested by the gang cannot be used"
	case a.multiple && (n.ssn.Action == "preempt" || n.ssn.Action == "reclaim"):
		return "preemption is not supported for gangs with podCountMultiple"
	case a.must == 0:
		return ""
	}
	required := n.requiredDomain(n.ssn.Jobs[task.Job], a)
	if required == "" || domainOf(n.domains[node.Name], node.Name, a.must) == required {
		return ""
	}
	return fmt.Sprintf("node(s) outside of %s %s, where the gang's pods are", a.rules[a.must].Name, required)
}

// jobKey returns a key of the gang and its required domain; empty if all nodes are open to the gang. The key changes when the
// members are placed in another domain.
func (n *network) jobKey(job *api.JobInfo) string {
	if n == nil || job == nil || !n.asking[job.UID].binds() {
		return ""
	}
	return string(job.UID) + " " + n.requiredDomain(job, n.asking[job.UID])
}

// leftDomain is a pre-bind step that checks whether the nodes of a gang are still in its domain. It outlives its session, so it
// holds only data that does not change.
type leftDomain struct {
	layers  []layer
	domains map[string][]string
	asking  map[api.JobID]int
	nodes   corelisters.NodeLister
}

// addPreBind adds the pre-bind step of leftDomain if a gang must be placed in one domain of a layer that node labels define.
func (n *network) addPreBind(nodes func() corelisters.NodeLister) {
	step := &leftDomain{layers: n.layers, domains: n.domains, asking: map[api.JobID]int{}}
	for uid, a := range n.asking {
		if a.err == nil && a.must > 0 && a.must <= len(n.layers) {
			step.asking[uid] = a.must
		}
	}
	if len(step.asking) == 0 {
		return
	}
	step.nodes = nodes()
	n.ssn.AddPreBindFn(Name, step.preBind, framework.WithPreCommitCheck(step.preBind))
}

// preBind returns an error if the node's labels changed after the gang was placed, so that the node is no longer in the gang's
// domain.
func (l *leftDomain) preBind(task *api.TaskInfo, name string) error {
	must, asks := l.asking[task.Job]
	if !asks {
		return nil
	}
	then := domainOf(l.domains[name], name, must)
	node, err := l.nodes.Get(name)
	if err != nil { // a lister's only error is NotFound
		return fmt.Errorf("node %s does not exist; it was in %s %s when the gang was placed", name, l.layers[must-1].name, then)
	}
	if now := domainOf(domainsOf(l.layers, node), name, must); now != then {
		return fmt.Errorf("node %s moved from %s %s to %s after the gang was placed; annotation %s requires one %s",
			name, l.layers[must-1].name, then, now, gangs.TopologyAnnotation, l.layers[must-1].name)
	}
	return nil
}
