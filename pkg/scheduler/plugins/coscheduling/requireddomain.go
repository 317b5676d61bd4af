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

// pathOf returns the names of the domains that contain the node, from the widest to the domain that must hold the whole
// gang. must is the number of these names. If must exceeds the number of domains, the node itself is the last one.
func pathOf(domains []string, node string, must int) []string {
	if must > len(domains) {
		return append(slices.Clip(domains), node)
	}
	return domains[:must]
}

// domainOf returns one name for the domain that contains the node and must hold the whole gang. The name consists of
// the names of the wider domains around it and its own (pathOf).
func domainOf(domains []string, node string, must int) string {
	return strings.Join(pathOf(domains, node, must), "/")
}

// requiredDomain returns the domain that holds the largest number of the gang's placed members; empty if no member is
// placed. If several domains hold equally many members, the first by path wins, as in package topologyplan. A path has
// the names of the wider domains and of the domain itself (pathOf).
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

// domainsFor returns the domains in which the whole gang may be placed. It returns none if the rules do not require
// one domain.
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

// predicate refuses nodes outside of the domain in which the task's gang must be placed, for actions that do not use
// topology plans. It refuses all nodes to a gang whose rules cannot be used.
func (n *network) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if n == nil || n.asking[task.Job] == nil {
		return nil
	}
	reason := n.refusal(n.asking[task.Job], task, node)
	if reason == "" {
		return nil
	}
	// The status code UnschedulableAndUnresolvable keeps actions from evicting pods on this node for the task. The
	// required domain may follow from members placed in this session. Their placement may be reverted, but an eviction
	// is final.
	return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: reason})
}

// refusal returns the reason why the task may not be placed on the node; empty if it may.
func (n *network) refusal(a *gathered, task *api.TaskInfo, node *api.NodeInfo) string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.must == 0:
		return ""
	}
	required := n.requiredDomain(n.ssn.Jobs[task.Job], a)
	if required == "" || domainOf(n.domains[node.Name], node.Name, a.must) == required {
		return ""
	}
	return fmt.Sprintf("node(s) outside of %s %s, where the gang's pods are", a.rules[a.must].Name, required)
}

// jobKey returns the part of the key for cached filter results that stands for the job's topology rules; empty if they
// forbid no node. It contains the required domain, so that it changes when members are placed in another domain.
func (n *network) jobKey(job *api.JobInfo) string {
	if n == nil || job == nil || !n.asking[job.UID].binds() {
		return ""
	}
	return string(job.UID) + " " + n.requiredDomain(job, n.asking[job.UID])
}

// leftDomain is a pre-bind step that checks whether the node of a member is still in the gang's domain. The step may
// run after its session has closed, so it holds only data that does not change.
type leftDomain struct {
	layers  []layer
	domains map[string][]string
	asking  map[api.JobID]int
	nodes   corelisters.NodeLister
}

// addPreBind adds the pre-bind step leftDomain if a gang must be placed in one domain of a layer that node labels
// define.
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

// preBind returns an error if the node has left the gang's domain, because its labels changed or it was deleted after
// the gang was placed.
func (l *leftDomain) preBind(task *api.TaskInfo, name string) error {
	must, asks := l.asking[task.Job]
	if !asks {
		return nil
	}
	then := domainOf(l.domains[name], name, must)
	node, err := l.nodes.Get(name)
	if err != nil { // a lister's only error is NotFound
		return fmt.Errorf("node %s no longer exists; it was in %s %s when the gang was placed", name, l.layers[must-1].name, then)
	}
	if now := domainOf(domainsOf(l.layers, node), name, must); now != then {
		return fmt.Errorf("node %s moved from %s %s to %s after the gang was placed; annotation %s requires one %s",
			name, l.layers[must-1].name, then, now, gangs.TopologyAnnotation, l.layers[must-1].name)
	}
	return nil
}
