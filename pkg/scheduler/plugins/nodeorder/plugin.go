// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"errors"
	"fmt"
	"strconv"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = upstream.PluginName

// Spec declares the plugin.
func Spec() framework.PluginSpec {
	var w weights
	var arguments []framework.Argument
	for _, a := range w.arguments() {
		arguments = append(arguments, framework.Argument{
			Name: a.name, Type: framework.Int, Default: strconv.Itoa(a.byDefault), Doc: a.doc,
		})
	}
	return framework.PluginSpec{
		Name:        Name,
		Doc:         "Scores nodes with kube-scheduler's scores, as upstream's plugin of that name does, and faster.",
		Arguments:   arguments,
		Load:        load,
		LeavesTasks: true,
	}
}

// weights has the weight of each score. A score with weight 0 is not computed.
type weights struct {
	leastRequested, mostRequested, balancedResource   int
	nodeAffinity, podAffinity                         int
	taintToleration, imageLocality, podTopologySpread int
}

type weightArgument struct {
	name      string
	byDefault int
	weight    *int
	doc       string
}

// arguments returns the plugin's arguments that set the weights.
func (w *weights) arguments() []weightArgument {
	return []weightArgument{
		{upstream.LeastRequestedWeight, 1, &w.leastRequested, "Weight of having much CPU and memory left unrequested."},
		{upstream.MostRequestedWeight, 0, &w.mostRequested, "Weight of having little CPU and memory left unrequested."},
		{upstream.BalancedResourceWeight, 1, &w.balancedResource, "Weight of the score for balanced use of a node's CPU, memory and, for pods that request it, `nvidia.com/gpu`."},
		{upstream.NodeAffinityWeight, 2, &w.nodeAffinity, "Weight of the pod's preferred node affinity."},
		{upstream.PodAffinityWeight, 2, &w.podAffinity, "Weight of preferred pod affinity and anti-affinity, of the pod and of the pods on the node."},
		{upstream.TaintTolerationWeight, 3, &w.taintToleration, "Weight of having few `PreferNoSchedule` taints that the pod does not tolerate."},
		{upstream.ImageLocalityWeight, 1, &w.imageLocality, "Weight of having the pod's images."},
		{upstream.PodTopologySpreadWeight, 2, &w.podTopologySpread, "Weight of soft topology spread constraints."},
	}
}

// load parses the weights. It rejects weights below zero, which would reverse a score, and weights so large that sums
// of scores would overflow.
func load(args framework.Arguments) (framework.Builder, error) {
	var w weights
	var errs []error
	for _, a := range w.arguments() {
		*a.weight = a.byDefault
		args.GetInt(a.weight, a.name)
		if *a.weight < 0 || *a.weight > framework.MaxWeight {
			errs = append(errs, fmt.Errorf("%s: found %d, want a weight from 0 to %d", a.name, *a.weight, framework.MaxWeight))
		}
	}
	return func(framework.Handle) (framework.Plugin, error) { return &plugin{weights: w, args: args}, nil }, errors.Join(errs...)
}

type plugin struct {
	weights
	args framework.Arguments
	// session is the open session.
	session *session
}

var (
	_ framework.SessionScoped = (*plugin)(nil)
	_ framework.Signer        = (*session)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := newSession(p, ssn)
	p.session = s
	ssn.AddNodeOrderFn(Name, s.nodeOrder)
	ssn.AddBatchNodeOrderFn(Name, s.batchNodeOrder)
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: s.placed, DeallocateFunc: s.placed})
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) { p.session = nil }

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// SignTask implements framework.Signer.
func (s *session) SignTask(task *api.TaskInfo) framework.CacheScope {
	if s.uncacheable(task) {
		return framework.Uncached
	}
	return framework.PerTaskClass
}

// PodKeys implements framework.Signer. It names no labels: SignTask marks pods whose scores depend on labels as
// uncached.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// uncacheable reports whether the task's score on a node depends on tasks placed on other nodes, so that it must not
// be cached.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	p := task.Pod
	if affinity := p.Spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) && s.podsPreferred(s.pod(p)) {
		return true
	}
	// A pod without pod affinity needs only these cheaper checks. They matter because uncacheable is called for every
	// task.
	return s.podAffinity != 0 && s.preferences.concern(p) || s.spreadUncacheable(p)
}
