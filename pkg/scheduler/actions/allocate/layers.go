// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	feature "k8s.io/apiserver/pkg/util/feature"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/extended"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	vcapi "volcano.sh/volcano/pkg/scheduler/api"
	vcconf "volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// layers splits the conf's plugins by how long their verdicts on a task stay true. Each layer is the conf's tiers with
// the plugins of that layer only, in conf order: a session dispatches to the tiers it has, and this is the one way to
// ask a part of upstream's plugins.
type layers struct {
	// kept is asked once per shape and node, ofJob once per job key, shape and node, and live for every task and node. Where
	// nothing is to be kept live is all plugins, and kept and ofJob are asked only where node groups are chosen and tasks are
	// packed by numbers: which of them are tried is the same then.
	kept, ofJob, live []vcconf.Tier
	// coupled says that a plugin is asked for every task because of what the task is.
	coupled bool
	// batch is kept without the predicates plugin, which scores nodes together by a pod's claims only and takes its time to
	// say that there are none.
	batch []vcconf.Tier
	// scored says that live has plugins that may have a say in which of the nodes that fit is best. That is all but the
	// predicates plugin, which has one only where volumesScored says so.
	scored bool
	// remote says that live has a plugin that asks somebody over the network about each node.
	remote bool
	// jobPlugins are the plugins of ofJob.
	jobPlugins []string
	// signature tells layerings apart.
	signature string
}

// layering finds the layers of a task; equal ones are shared.
type layering struct {
	ssn *framework.Session
	// nothingKept asks every plugin for every task, as predicateErrorCacheEnable: false wishes.
	nothingKept bool
	// plugins are those that are asked, in conf order, with their layer unless a task makes it another.
	plugins []layeredPlugin
	// unbounded says that one of them may look at anything of a task.
	unbounded bool
	// classes are the extended resources that device classes hand out, which pods need no claim for.
	classes map[v1.ResourceName]string
	known   map[string]*layers
	buffer  []byte
}

type layeredPlugin struct {
	name  string
	layer byte // 'k' for kept, 'j' for ofJob, 'l' for live
}

// unbounded says that the plugin may look at anything of a task. It is asked for every task anyway.
func (p layeredPlugin) unbounded(ssn *framework.Session) bool {
	return p.layer == 'l' && ssn.PodKeysOf(p.name).All()
}

func newLayering(ssn *framework.Session, nothingKept bool) *layering {
	l := &layering{ssn: ssn, nothingKept: nothingKept, classes: classesByResource(ssn), known: map[string]*layers{}}
	for _, tier := range ssn.Tiers {
		for _, option := range tier.Plugins {
			if !asks(option) {
				continue
			}
			p := layeredPlugin{option.Name, 'k'}
			switch ssn.VerdictScopeOf(p.name) {
			case framework.Uncached:
				p.layer = 'l'
			case framework.PerJob:
				p.layer = 'j'
			}
			l.plugins = append(l.plugins, p)
			l.unbounded = l.unbounded || p.unbounded(ssn)
		}
	}
	return l
}

// asks says whether a plugin takes part in predicates, scores or the choice among scored nodes at all.
func asks(option vcconf.PluginOption) bool {
	on := func(b *bool) bool { return b != nil && *b }
	return on(option.EnabledPredicate) || on(option.EnabledNodeOrder) || on(option.EnabledBestNode)
}

func (l *layering) of(task *vcapi.TaskInfo) *layers {
	coupled, preferring := podCoupled(l.ssn, task.Pod) || asksFor(task.Pod, l.classes), podPrefers(task.Pod)
	l.buffer = l.buffer[:0]
	for _, p := range l.plugins {
		if p.layer != 'l' && (l.ssn.UncacheableTask(p.name, task) || coupled && p.name == predicates.PluginName ||
			preferring && p.name == nodeorder.PluginName && !l.ssn.HasUncacheableTaskFn(p.name)) {
			p.layer = 'l'
		}
		l.buffer = append(l.buffer, p.layer)
	}
	if found, ok := l.known[string(l.buffer)]; ok {
		return found
	}
	made := l.make(string(l.buffer))
	l.known[made.signature] = made
	return made
}

// make makes the layers of the signature, which has a letter for each plugin that takes part, in conf order.
func (l *layering) make(signature string) *layers {
	made := &layers{signature: signature, coupled: strings.IndexByte(signature, 'l') >= 0}
	for _, tier := range l.ssn.Tiers {
		var kept, batch, ofJob, live vcconf.Tier
		for _, option := range slices.DeleteFunc(slices.Clone(tier.Plugins), func(o vcconf.PluginOption) bool { return !asks(o) }) {
			layer := signature[0]
			signature = signature[1:]
			if layer == 'l' || l.nothingKept {
				live.Plugins = append(live.Plugins, option)
				made.scored = made.scored || option.Name != predicates.PluginName
				made.remote = made.remote || framework.AsksServer(option.Name)
			}
			switch layer {
			case 'j':
				ofJob.Plugins = append(ofJob.Plugins, option)
				made.jobPlugins = append(made.jobPlugins, option.Name)
			case 'k':
				kept.Plugins = append(kept.Plugins, option)
				if option.Name != predicates.PluginName {
					batch.Plugins = append(batch.Plugins, option)
				}
			}
		}
		made.kept, made.batch = appendTier(made.kept, kept), appendTier(made.batch, batch)
		made.ofJob, made.live = appendTier(made.ofJob, ofJob), appendTier(made.live, live)
	}
	return made
}

func appendTier(tiers []vcconf.Tier, tier vcconf.Tier) []vcconf.Tier {
	if len(tier.Plugins) == 0 {
		return tiers
	}
	return append(tiers, tier)
}

// jobLayer returns the layer ofJob and a key of what it depends on, without the named plugin.
func (l *layers) jobLayer(ssn *framework.Session, job *vcapi.JobInfo, without string) ([]vcconf.Tier, string) {
	if len(l.jobPlugins) == 0 {
		return nil, ""
	}
	var keys []string
	for _, plugin := range l.jobPlugins {
		if plugin != without {
			keys = append(keys, ssn.JobKey(plugin, job))
		}
	}
	if len(keys) == len(l.jobPlugins) {
		return l.ofJob, strings.Join(keys, "\x00")
	}
	var tiers []vcconf.Tier
	for _, tier := range l.ofJob {
		left := slices.DeleteFunc(slices.Clone(tier.Plugins), func(o vcconf.PluginOption) bool { return o.Name == without })
		tiers = appendTier(tiers, vcconf.Tier{Plugins: left})
	}
	return tiers, strings.Join(append(keys, "without "+without), "\x00")
}

// with dispatches to the given tiers only while fn runs.
func with(ssn *framework.Session, tiers []vcconf.Tier, fn func()) {
	all := ssn.Tiers
	ssn.Tiers = tiers
	defer func() { ssn.Tiers = all }()
	fn()
}

// podCoupled says whether the Kubernetes predicates' verdict on the pod depends on what is placed on other nodes: required
// pod affinity of its own, hard topology spread, claims on devices, and claims on volumes that are not bound yet.
//
// Anti-affinity of pods that ran before the session is part of what the predicates keep per task; that of pods placed in
// the session is kept by exclusions.
func podCoupled(ssn *framework.Session, pod *v1.Pod) bool {
	if len(k8sframework.GetPodAffinityTerms(pod.Spec.Affinity)) > 0 || len(k8sframework.GetPodAntiAffinityTerms(pod.Spec.Affinity)) > 0 {
		return true
	}
	hard := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule }
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, hard) || len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral != nil {
			return true
		}
		if volume.PersistentVolumeClaim != nil && !claimBound(ssn, pod.Namespace, volume.PersistentVolumeClaim.ClaimName) {
			return true
		}
	}
	return false
}

// classesByResource are the device classes by the extended resource that stands for them.
func classesByResource(ssn *framework.Session) map[v1.ResourceName]string {
	if manager := ssn.SharedDRAManager(); manager != nil && feature.DefaultFeatureGate.Enabled(features.DRAExtendedResource) {
		classes, err := extended.DeviceClassMapping(manager)
		if err != nil {
			klog.ErrorS(err, "Device classes cannot be read, pods that ask for them by an extended resource are placed as if there were none")
		}
		return classes
	}
	return nil
}

// asksFor says whether the pod asks for one of the resources.
func asksFor(pod *v1.Pod, classes map[v1.ResourceName]string) bool {
	if len(classes) == 0 {
		return false
	}
	for name, amount := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		if _, ok := classes[name]; ok && !amount.IsZero() {
			return true
		}
	}
	return false
}

// podPrefers says whether the pod may prefer nodes by the pods on others.
func podPrefers(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0
}

// lasting says of a refusal by the predicates plugin that it is by the node's own labels, taints or being cordoned, which
// do not change in a session.
func lasting(err error) bool {
	var refusal *vcapi.FitError
	return errors.As(err, &refusal) && slices.ContainsFunc(refusal.Status, func(s *vcapi.Status) bool {
		return s.Reason == nodeaffinity.ErrReasonPod || s.Reason == nodeunschedulable.ErrReasonUnschedulable ||
			strings.HasPrefix(s.Reason, "node(s) had untolerated taint {")
	})
}

// volumesScored says whether the predicates plugin scores nodes for the pod: by the volumes it would be given there.
func volumesScored(pod *v1.Pod) bool {
	return framework.HasClaims(pod) && feature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring)
}

// claimBound says whether the claim has its volume; not when it cannot be read.
func claimBound(ssn *framework.Session, namespace, name string) bool {
	factory := ssn.InformerFactory()
	if factory == nil {
		return false
	}
	claim, err := factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	return err == nil && claim.Spec.VolumeName != "" && claim.Status.Phase == v1.ClaimBound
}
