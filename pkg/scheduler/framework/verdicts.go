// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// VerdictScope is how far a plugin's predicate and node scores for a task hold: for which tasks besides the one it was asked about. It
// tells allocate how long it may keep them. The zero value is the most careful.
type VerdictScope int

const (
	// Uncached is asked again on every node for every task: a verdict may depend on what is placed on other nodes.
	Uncached VerdictScope = iota
	// PerJob holds for tasks of one class (see PerTaskClass) in one job, or in the jobs that have one key (JobSigner): it is
	// kept for these, and asked again on a node that has changed.
	PerJob
	// PerTaskClass holds for all tasks of a class: those with equal requests, constraints, priority and role, and equal labels
	// and annotations as far as the plugin reads them. It is kept for the tasks of a class in all jobs of the session, and
	// asked again on a node that has changed.
	PerTaskClass
	// NoVerdict is of a task on which the plugin has no say: its predicate refuses the task no node, and its scores are the same on all.
	// It is not asked.
	NoVerdict
)

// NoVerdicts is the Signer of a plugin that has neither a predicate nor node scores.
type NoVerdicts struct{}

// SignTask implements Signer.
func (NoVerdicts) SignTask(*api.TaskInfo) VerdictScope { return NoVerdict }

// PodKeys implements Signer.
func (NoVerdicts) PodKeys() PodKeys { return SomePodKeys() }

// Verdicts is what is known of the predicates and node scores of a session's plugins: what they depend on, and who has any.
type Verdicts struct {
	// ours are the plugins of this project's kind that have opened. All others are upstream's.
	ours map[string]signature
	// added is what plugins have added with methods of the Session.
	added   map[string]added
	volumes ofPlugin[VolumeSigner]
	claims  ofPlugin[ClaimSigner]
	// explained are the resources of which a plugin says better than sums what a node is short of.
	explained map[v1.ResourceName]bool
}

// signature is what a plugin signs; nil what it does not.
type signature struct {
	tasks Signer
	jobs  JobSigner
	nodes NodeSigner
}

// added is what a plugin has added. One with a choice, or with scores that are scaled, is asked for each task.
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
		for _, resource := range explainer.ExplainedShortages() {
			v.explained[resource] = true
		}
	}
}

// note records what a plugin has added.
func (v *Verdicts) note(plugin string, one added) {
	known := v.added[plugin]
	v.added[plugin] = added{known.predicate || one.predicate, known.score || one.score, known.choice || one.choice}
}

// Signs reports whether the plugin is a Signer.
func (v *Verdicts) Signs(plugin string) bool { return v.ours[plugin].tasks != nil }

// Scope returns how far the plugin's verdicts and scores for the task hold.
func (v *Verdicts) Scope(plugin string, task *api.TaskInfo) VerdictScope {
	if v.added[plugin].choice {
		return Uncached
	}
	s, ours := v.ours[plugin]
	if s.tasks == nil {
		if ours {
			return Uncached
		}
		return upstreamInputs[plugin].scope
	}
	scope := Uncached
	guarded(plugin, func() { scope = s.tasks.SignTask(task) })
	return scope
}

// PodKeys returns the labels and annotations of pods that the plugin's verdicts and scores depend on.
func (v *Verdicts) PodKeys(plugin string) PodKeys {
	s, ours := v.ours[plugin]
	switch {
	case s.tasks != nil:
		return s.tasks.PodKeys()
	case ours:
		return PodKeys{}
	}
	return upstreamInputs[plugin].reads
}

// ReadsAnything reports whether the plugin may look at anything of a task. It is asked for every task.
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

// VolumeKey returns the key of a volume with a claim; false when no plugin says, or it panics.
func (v *Verdicts) VolumeKey(pod *v1.Pod, volume *v1.Volume) (key string, ok bool) {
	if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil || v.volumes.is == nil {
		return "", false
	}
	guarded(v.volumes.plugin, func() { key, ok = v.volumes.is.SignVolume(pod, volume), true })
	return key, ok
}

// ClaimKey returns the key of a pod's claim; false when no plugin says, or it panics.
func (v *Verdicts) ClaimKey(pod *v1.Pod, claim *v1.PodResourceClaim) (key string, ok bool) {
	if v.claims.is != nil {
		guarded(v.claims.plugin, func() { key, ok = v.claims.is.SignClaim(pod, claim), true })
	}
	return key, ok
}

// Judges reports whether a plugin of this project's kind may refuse nodes, by what only it knows. Of a Signer its predicate is known.
func (v *Verdicts) Judges(plugin string) bool {
	s, ours := v.ours[plugin]
	return ours && (s.tasks == nil || v.added[plugin].predicate)
}

// MayScore reports whether the plugin may have a say in which of the nodes that fit is best. Of Signers alone it is known that they have none.
func (v *Verdicts) MayScore(plugin string) bool {
	return !v.Signs(plugin) || v.added[plugin].score
}

// MayRefuse is false of a plugin that never refuses a node.
func (v *Verdicts) MayRefuse(plugin string) bool {
	_, ours := v.ours[plugin]
	return ours || !upstreamInputs[plugin].onlyScores
}

// OnTheClock reports whether the plugin's verdicts may be others in the next session though nothing has changed.
func (v *Verdicts) OnTheClock(plugin string) bool {
	_, ours := v.ours[plugin]
	return !ours && upstreamInputs[plugin].onTheClock
}

// IsShortageExplained is true of a resource that a ShortageExplainer names.
func (v *Verdicts) IsShortageExplained(resource string) bool {
	return v.explained[v1.ResourceName(resource)]
}
