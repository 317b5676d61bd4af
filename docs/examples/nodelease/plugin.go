// SPDX-License-Identifier: Apache-2.0

// Package nodelease is an example of a plugin that lives outside the scheduler's tree: of the scheduler it
// imports the framework package alone.
//
// Pods that ask for it have their node to themselves, among pods that ask for it: the pre-bind step takes a
// coordination.k8s.io Lease that stands for the node, and its rollback gives the Lease back. Such a claim is an
// effect outside the scheduler, so the plugin is also a Recoverer: what a scheduler that died had claimed and not
// bound is found and given back by the next one.
package nodelease

import (
	"context"
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "nodelease"

const (
	// ExclusiveAnnotation on a pod, with the value "true", asks for a node of its own.
	ExclusiveAnnotation = "nodelease.example.com/exclusive"
	// LeaseAnnotation is on a bound pod; it names the Lease that the pod holds.
	LeaseAnnotation = "nodelease.example.com/lease"

	namespaceArgument = "nodelease.namespace"
	defaultNamespace  = "volcano-system"
)

// Spec describes the plugin: what the configuration is validated with, the documentation is made from, and the
// plugin is built by.
func Spec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Gives pods that ask for it a node of their own, claimed by a Lease.",
		Arguments: []framework.Argument{{
			Name: namespaceArgument, Type: framework.String, Default: defaultNamespace,
			Doc: "The namespace of the Leases.",
		}},
		New: New,
	}
}

// New builds the plugin.
func New(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
	namespace := defaultNamespace
	args.GetString(&namespace, namespaceArgument)
	return &plugin{claims: claims{client: h.KubeClient(), namespace: namespace}}, nil
}

type plugin struct {
	framework.NoFilter // it filters and scores no nodes, so allocate need not call it

	claims claims
}

var (
	_ framework.Plugin    = (*plugin)(nil)
	_ framework.PreBinder = (*plugin)(nil)
	_ framework.Recoverer = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin. The step is the plugin itself, which is found by its interface.
func (p *plugin) OnSessionOpen(*framework.Session) {}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) {}

// PreBind claims the node. Done twice it finds its own claim and succeeds. The annotation it sets is staged: the
// pod gets it in the write that binds it, or not at all.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	if task.Pod.Annotations[ExclusiveAnnotation] != "true" {
		return nil
	}
	lease, err := p.claims.take(ctx, nodeName, holderOf(task.Pod))
	if err != nil {
		return fmt.Errorf("claiming node %s: %w", nodeName, err)
	}
	task.Pod.Annotations[LeaseAnnotation] = lease
	return nil
}

// Rollback gives the claim back. It is called after a failed PreBind too, when there may be no claim, or
// another's: it ends one that is this pod's own and nothing else.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	if task.Pod.Annotations[ExclusiveAnnotation] != "true" {
		return nil
	}
	return p.claims.release(ctx, nodeName, holderOf(task.Pod))
}

// Recover gives back the claims of pods that are not on the node they claimed. It runs before a leader's first
// session, when no transaction is under way, so such a claim is one that a former leader could not finish.
func (p *plugin) Recover(ctx context.Context) error {
	return p.claims.endStale(ctx)
}
