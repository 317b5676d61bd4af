// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// CacheScope says which tasks share a plugin's filter results and scores. Allocate caches results for these tasks. The
// zero value allows no caching.
type CacheScope int

const (
	// Uncached means that results are requested for every task on every node, because they may depend on placements on
	// other nodes.
	Uncached CacheScope = iota
	// PerJob means that tasks of one class (see PerTaskClass) share results if they are in one job, or in jobs with the
	// same key (Signer.SignJob). The results are cached for these tasks, and requested again for a node that has
	// changed.
	PerJob
	// PerTaskClass means that all tasks of a class share results: tasks with equal requests, constraints, priority and
	// role, and with equal labels and annotations as far as the plugin reads them. The results are cached for all jobs
	// of the session, and requested again for a node that has changed.
	PerTaskClass
	// Unaffected means that the plugin does not affect the task: its predicate accepts every node, and its scores are
	// the same on all nodes. The plugin is not called for the task.
	Unaffected
)

// DefaultSigner implements Signer with the answers that permit the least caching. A Signer embeds it, and overrides the
// methods for which its plugin permits more.
type DefaultSigner struct{}

// SignTask implements Signer: nothing is cached.
func (DefaultSigner) SignTask(*api.TaskInfo) CacheScope { return Uncached }

// PodKeys implements Signer: the plugin may read all labels and annotations of a pod.
func (DefaultSigner) PodKeys() PodKeys { return PodKeys{} }

// SignJob implements Signer: no other job has equal results.
func (DefaultSigner) SignJob(job *api.JobInfo) string { return string(job.UID) }

// SignNode implements Signer: no node has a key, so allocate tries waiting gangs again in each session.
func (DefaultSigner) SignNode(*api.NodeInfo) (uint64, bool) { return 0, false }

// SignVolume implements Signer: the plugin knows of no equivalent volumes.
func (DefaultSigner) SignVolume(*v1.Pod, *v1.Volume) string { return "" }

// SignClaim implements Signer: the plugin knows of no equivalent claims.
func (DefaultSigner) SignClaim(*v1.Pod, *v1.PodResourceClaim) string { return "" }

// Reach implements Signer: the predicate may accept any node.
func (DefaultSigner) Reach(*api.TaskInfo) *Reach { return nil }

// Unresolvable implements Signer: evictions may resolve refusals of the predicate.
func (DefaultSigner) Unresolvable() bool { return false }

// NoFilter is the Signer of a plugin that has neither a predicate nor node scores.
type NoFilter struct{ DefaultSigner }

// SignTask implements Signer.
func (NoFilter) SignTask(*api.TaskInfo) CacheScope { return Unaffected }

// PodKeys implements Signer.
func (NoFilter) PodKeys() PodKeys { return SomePodKeys() }

// Signers describes the predicates and node scores of a session's plugins: which plugins have them, and the inputs that they
// depend on.
type Signers struct {
	// ours are the opened plugins that were written for this framework, by name; nil for a plugin that is not a Signer.
	// All plugins that are not in the map are upstream's.
	ours map[string]Signer
	// signing are the plugins that are Signers. filtering are the Signers with an enabled predicate. Both are in conf
	// order.
	signing, filtering []ofPlugin[Signer]
	// added records the functions that plugins have added with methods of the Session.
	added map[string]added
	// explained are the resources whose shortage a plugin explains (PluginSpec.ExplainsShortages).
	explained map[v1.ResourceName]bool
}

// added records which functions a plugin has added: a predicate, a score, a choice, or an order of jobs. A choice selects
// one of the scored nodes, or scales scores. A plugin with a choice is called for each task.
type added struct{ predicate, score, choice, jobOrder bool }

func newSigners() Signers { return Signers{ours: map[string]Signer{}, added: map[string]added{}} }

// add records an opened plugin. predicateOn reports whether the conf enables the plugin's predicate.
func (v *Signers) add(name string, plugin, inSession any, predicateOn bool) {
	signer, signs := find[Signer](plugin, inSession)
	v.ours[name] = signer
	if !signs {
		return
	}
	v.signing = append(v.signing, ofPlugin[Signer]{name, signer})
	if predicateOn {
		v.filtering = append(v.filtering, ofPlugin[Signer]{name, signer})
	}
}

// recordAdded records a function that a plugin has added.
func (v *Signers) recordAdded(plugin string, one added) {
	known := v.added[plugin]
	v.added[plugin] = added{known.predicate || one.predicate, known.score || one.score, known.choice || one.choice, known.jobOrder || one.jobOrder}
}

// IsUpstreams reports whether the plugin of this name is upstream's, and not one that was written for this framework.
func (v *Signers) IsUpstreams(plugin string) bool {
	_, ours := v.ours[plugin]
	return !ours
}

// Signs reports whether the plugin is a Signer.
func (v *Signers) Signs(plugin string) bool { return v.ours[plugin] != nil }

// Scope returns which tasks share the plugin's filter results and scores for the task (CacheScope).
func (v *Signers) Scope(plugin string, task *api.TaskInfo) CacheScope {
	scope, fixed := v.FixedScope(plugin)
	if !fixed {
		guarded(plugin, func() { scope = v.ours[plugin].SignTask(task) })
	}
	return scope
}

// FixedScope returns the CacheScope of the plugin's results, and true if it is the same for all tasks. Call it after
// all plugins have opened.
func (v *Signers) FixedScope(plugin string) (scope CacheScope, fixed bool) {
	signer, ours := v.ours[plugin]
	switch {
	case v.added[plugin].choice:
		return Uncached, true
	case !ours:
		return upstreamSignatures[plugin].scope, true
	default:
		return Uncached, signer == nil
	}
}

// PodKeys returns the labels and annotations of pods that the plugin's filter results and scores depend on.
func (v *Signers) PodKeys(plugin string) (keys PodKeys) {
	signer, ours := v.ours[plugin]
	switch {
	case signer != nil:
		guarded(plugin, func() { keys = signer.PodKeys() })
		return keys
	case ours:
		return PodKeys{}
	}
	return upstreamSignatures[plugin].reads
}

// ReadsAnything reports whether the plugin may read any property of a task. It is then called for every task.
func (v *Signers) ReadsAnything(plugin string) bool {
	if v.Signs(plugin) && !v.added[plugin].choice {
		return false
	}
	return v.Scope(plugin, nil) == Uncached && v.PodKeys(plugin).All()
}

// JobKey returns the plugin's key of the job (Signer.SignJob): jobs with equal keys share the plugin's cached results.
func (v *Signers) JobKey(plugin string, job *api.JobInfo) string {
	signer, ours := v.ours[plugin]
	switch {
	case signer != nil:
		return signer.SignJob(job)
	case !ours && upstreamSignatures[plugin].ofQueue:
		return string(job.Queue)
	}
	return string(job.UID)
}

// NodeKey returns the plugin's key of the inputs of its filter results on the node (Signer.SignNode); false when the
// plugin has no key for the node, or panics.
func (v *Signers) NodeKey(plugin string, node *api.NodeInfo) (key uint64, ok bool) {
	if signer := v.ours[plugin]; signer != nil {
		guarded(plugin, func() { key, ok = signer.SignNode(node) })
	}
	return key, ok
}

// VolumeKey returns a key that pods of one task class share for the volume (Signer.SignVolume); false when the volume has
// no claim, or no plugin has a key for it.
func (v *Signers) VolumeKey(pod *v1.Pod, volume *v1.Volume) (key string, ok bool) {
	if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
		return "", false
	}
	return v.firstKey(func(signer Signer) string { return signer.SignVolume(pod, volume) })
}

// ClaimKey returns a key that pods of one task class share for the resource claim (Signer.SignClaim); false when no
// plugin has a key for it.
func (v *Signers) ClaimKey(pod *v1.Pod, claim *v1.PodResourceClaim) (key string, ok bool) {
	return v.firstKey(func(signer Signer) string { return signer.SignClaim(pod, claim) })
}

// firstKey returns the first key that is not empty, from the Signers in conf order. of(signer) asks one Signer for its
// key.
func (v *Signers) firstKey(of func(Signer) string) (key string, ok bool) {
	for _, one := range v.signing {
		if guarded(one.plugin, func() { key = of(one.is) }); key != "" {
			return key, true
		}
	}
	return "", false
}

// Reach returns the only nodes that can take the task; nil for any node.
func (v *Signers) Reach(task *api.TaskInfo) (reach *Reach) {
	for _, one := range v.filtering {
		if guarded(one.plugin, func() { reach = one.is.Reach(task) }); reach != nil {
			return reach
		}
	}
	return nil
}

// unresolvable reports whether the plugin's predicate must run before all others (Signer.Unresolvable).
func (v *Signers) unresolvable(plugin string) (first bool) {
	if signer := v.ours[plugin]; signer != nil {
		guarded(plugin, func() { first = signer.Unresolvable() })
	}
	return first
}

// HasOwnFilter reports whether the plugin was written for this framework and may refuse nodes. A plugin that is not a
// Signer may always do so, because only Signers declare whether they have a predicate.
func (v *Signers) HasOwnFilter(plugin string) bool {
	signer, ours := v.ours[plugin]
	return ours && (signer == nil || v.added[plugin].predicate)
}

// HasScore reports whether the plugin may affect which of the feasible nodes is best. Any plugin that is not a Signer
// may do so.
func (v *Signers) HasScore(plugin string) bool {
	return !v.Signs(plugin) || v.added[plugin].score
}

// HasFilter reports whether the plugin may refuse a node.
func (v *Signers) HasFilter(plugin string) bool {
	_, ours := v.ours[plugin]
	return ours || !upstreamSignatures[plugin].onlyScores
}

// TimeDependent reports whether the plugin's filter results may differ in the next session although nothing has changed.
func (v *Signers) TimeDependent(plugin string) bool {
	_, ours := v.ours[plugin]
	return !ours && upstreamSignatures[plugin].timeDependent
}

// IsShortageExplained reports whether a plugin explains shortages of the resource.
func (v *Signers) IsShortageExplained(resource string) bool {
	return v.explained[v1.ResourceName(resource)]
}
