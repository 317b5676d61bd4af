// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// VerdictScope is the set of tasks that a plugin's predicate result and node scores for one task also apply to. Allocate caches
// them accordingly. The zero value is the most careful.
type VerdictScope int

const (
	// Uncached verdicts are requested for every task on every node: they may depend on placements on other nodes.
	Uncached VerdictScope = iota
	// PerJob verdicts apply to tasks of one class (see PerTaskClass) in one job, or in the jobs with the same key
	// (JobSigner). They are cached for these, and requested again for a node that has changed.
	PerJob
	// PerTaskClass verdicts apply to all tasks of a class: tasks with equal requests, constraints, priority and role, and with
	// equal labels and annotations as far as the plugin reads them. They are cached for the tasks of a class in all jobs of the
	// session, and requested again for a node that has changed.
	PerTaskClass
	// NoVerdict means that the plugin does not affect the task: its predicate accepts every node, and its scores are the same on
	// all. It is not called.
	NoVerdict
)

// NoVerdicts is the Signer of a plugin that has neither a predicate nor node scores.
type NoVerdicts struct{}

// SignTask implements Signer.
func (NoVerdicts) SignTask(*api.TaskInfo) VerdictScope { return NoVerdict }

// PodKeys implements Signer.
func (NoVerdicts) PodKeys() PodKeys { return SomePodKeys() }

// Verdicts describes the predicates and node scores of a session's plugins: which plugins have them, and the inputs that they
// depend on.
type Verdicts struct {
	// ours are the opened plugins that were written for this framework. All others are upstream's.
	ours map[string]signature
	// added records the functions that plugins have added with methods of the Session.
	added   map[string]added
	volumes ofPlugin[VolumeSigner]
	claims  ofPlugin[ClaimSigner]
	// explained are the resources whose shortage a plugin explains better than sums can.
	explained map[v1.ResourceName]bool
}

// signature holds the Signer interfaces of a plugin; nil for an interface that it does not implement.
type signature struct {
	tasks Signer
	jobs  JobSigner
	nodes NodeSigner
}

// added records the functions that a plugin has added. A plugin with a choice, or with scaled scores, is called for each task.
type added struct{ predicate, score, choice bool }

func newVerdicts() Verdicts {
	return Verdicts{ours: map[string]signature{}, added: map[string]added{}, explained: map[v1.ResourceName]bool{}}
}

// add finds the plugin's interfaces.
func (v *Verdicts) add(name string, plugin, inSession any) {
	var s signature
	if s.tasks, _ = find[Signer](plugin, inSession); s.tasks != nil {
		s.jobs, _ = find[JobSigner](plugin, inSession)
		s.nodes, _ = find[NodeSigner](plugin, inSession)
	}
	v.ours[name] = s
	if signer, ok := find[VolumeSigner](plugin, inSession); ok && v.volumes.is == nil {
		v.volumes = ofPlugin[VolumeSigner]{name, signer}
	}
	if signer, ok := find[ClaimSigner](plugin, inSession); ok && v.claims.is == nil {
		v.claims = ofPlugin[ClaimSigner]{name, signer}
	}
	if explainer, ok := find[ShortageExplainer](plugin, inSession); ok {
		guarded(name, func() {
			for _, resource := range explainer.ExplainedShortages() {
				v.explained[resource] = true
			}
		})
	}
}

// recordAdded records a function that a plugin has added.
func (v *Verdicts) recordAdded(plugin string, one added) {
	known := v.added[plugin]
	v.added[plugin] = added{known.predicate || one.predicate, known.score || one.score, known.choice || one.choice}
}

// Signs reports whether the plugin is a Signer.
func (v *Verdicts) Signs(plugin string) bool { return v.ours[plugin].tasks != nil }

// Scope returns the scope of the plugin's verdicts and scores for the task.
func (v *Verdicts) Scope(plugin string, task *api.TaskInfo) VerdictScope {
	scope, fixed := v.FixedScope(plugin)
	if !fixed {
		guarded(plugin, func() { scope = v.ours[plugin].tasks.SignTask(task) })
	}
	return scope
}

// FixedScope returns the Scope of the plugin and true if it is the same for all tasks, once all plugins have opened.
func (v *Verdicts) FixedScope(plugin string) (scope VerdictScope, fixed bool) {
	s, ours := v.ours[plugin]
	switch {
	case v.added[plugin].choice:
		return Uncached, true
	case !ours:
		return upstreamInputs[plugin].scope, true
	default:
		return Uncached, s.tasks == nil
	}
}

// PodKeys returns the labels and annotations of pods that the plugin's verdicts and scores depend on.
func (v *Verdicts) PodKeys(plugin string) (keys PodKeys) {
	s, ours := v.ours[plugin]
	switch {
	case s.tasks != nil:
		guarded(plugin, func() { keys = s.tasks.PodKeys() })
		return keys
	case ours:
		return PodKeys{}
	}
	return upstreamInputs[plugin].reads
}

// ReadsAnything reports whether the plugin may read any property of a task. It is then called for every task.
func (v *Verdicts) ReadsAnything(plugin string) bool {
	if v.Signs(plugin) && !v.added[plugin].choice {
		return false
	}
	return v.Scope(plugin, nil) == Uncached && v.PodKeys(plugin).All()
}

// JobKey returns the plugin's key of the job.
func (v *Verdicts) JobKey(plugin string, job *api.JobInfo) string {
	s, ours := v.ours[plugin]
	switch {
	case s.jobs != nil:
		return s.jobs.SignJob(job)
	case !ours && upstreamInputs[plugin].ofQueue:
		return string(job.Queue)
	}
	return string(job.UID)
}

// NodeKey returns the plugin's key of the node; false when it has none, or panics.
func (v *Verdicts) NodeKey(plugin string, node *api.NodeInfo) (key uint64, ok bool) {
	if nodes := v.ours[plugin].nodes; nodes != nil {
		guarded(plugin, func() { key, ok = nodes.SignNode(node), true })
	}
	return key, ok
}

// VolumeKey returns the key of a volume with a claim; false when no plugin signs volumes, or it panics.
func (v *Verdicts) VolumeKey(pod *v1.Pod, volume *v1.Volume) (key string, ok bool) {
	if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil || v.volumes.is == nil {
		return "", false
	}
	guarded(v.volumes.plugin, func() { key, ok = v.volumes.is.SignVolume(pod, volume), true })
	return key, ok
}

// ClaimKey returns the key of a pod's claim; false when no plugin signs claims, or it panics.
func (v *Verdicts) ClaimKey(pod *v1.Pod, claim *v1.PodResourceClaim) (key string, ok bool) {
	if v.claims.is != nil {
		guarded(v.claims.plugin, func() { key, ok = v.claims.is.SignClaim(pod, claim), true })
	}
	return key, ok
}

// HasOwnFilter reports whether a plugin written for this framework may refuse nodes for reasons that only it knows. Only
// Signers declare whether they have a predicate.
func (v *Verdicts) HasOwnFilter(plugin string) bool {
	s, ours := v.ours[plugin]
	return ours && (s.tasks == nil || v.added[plugin].predicate)
}

// HasScore reports whether the plugin may affect which of the feasible nodes is best. Only a Signer is known not to.
func (v *Verdicts) HasScore(plugin string) bool {
	return !v.Signs(plugin) || v.added[plugin].score
}

// HasFilter reports whether the plugin may refuse a node.
func (v *Verdicts) HasFilter(plugin string) bool {
	_, ours := v.ours[plugin]
	return ours || !upstreamInputs[plugin].onlyScores
}

// TimeDependent reports whether the plugin's verdicts may differ in the next session although nothing has changed.
func (v *Verdicts) TimeDependent(plugin string) bool {
	_, ours := v.ours[plugin]
	return !ours && upstreamInputs[plugin].timeDependent
}

// IsShortageExplained reports whether a ShortageExplainer names the resource.
func (v *Verdicts) IsShortageExplained(resource string) bool {
	return v.explained[v1.ResourceName(resource)]
}
