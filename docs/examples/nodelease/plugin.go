// SPDX-License-Identifier: Apache-2.0

// Package nodelease is an example of a plugin outside the scheduler's tree. It imports only the framework package of the
// scheduler.
//
// At most one pod with the annotation ExclusiveAnnotation runs on a node. The pre-bind step claims the node with a
// coordination.k8s.io Lease, and its rollback releases the claim. Leases stay when the scheduler dies, so the plugin is
// also a Recoverer: it releases the claims that a former leader made for pods that were not bound.
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
	// ExclusiveAnnotation on a pod, with the value "true", requests a node without other pods that have the annotation.
	ExclusiveAnnotation = "nodelease.example.com/exclusive"
	// LeaseAnnotation on a bound pod names the Lease that the pod holds.
	LeaseAnnotation = "nodelease.example.com/lease"

	namespaceArgument = "nodelease.namespace"
	defaultNamespace  = "volcano-system"
)

// Spec describes the plugin's name, arguments and constructor.
func Spec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Gives pods that ask for it a node of their own, claimed by a Lease.",
		Arguments: []framework.Argument{{
			Name: namespaceArgument, Type: framework.String, Default: defaultNamespace,
			Doc: "The namespace of the Leases.",
		}},
		Load: Load,
	}
}

// Load parses the arguments, and returns the function that builds the plugin.
func Load(args framework.Arguments) (framework.Builder, error) {
	namespace := defaultNamespace
	args.GetString(&namespace, namespaceArgument)
	return func(h framework.Handle) (framework.Plugin, error) {
		return &plugin{claims: claims{client: h.KubeClient(), namespace: namespace}}, nil
	}, nil
}

type plugin struct {
	framework.NoFilter // the plugin filters and scores no nodes, so allocate need not call it

	claims claims
}

var (
	_ framework.Plugin    = (*plugin)(nil)
	_ framework.PreBinder = (*plugin)(nil)
	_ framework.Recoverer = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin. It registers nothing: the framework finds the step by the interface
// PreBinder, which the plugin implements.
func (p *plugin) OnSessionOpen(*framework.Session) {}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) {}

// PreBind claims the node. It is idempotent: a second call finds the pod's own claim and succeeds. The annotation that it
// sets is staged: the API server sets it in the same write that binds the pod.
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

// Rollback releases the claim. It is also called after a failed PreBind. The claim may then not exist, or may belong to
// another pod, so Rollback deletes only this pod's claim.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	if task.Pod.Annotations[ExclusiveAnnotation] != "true" {
		return nil
	}
	return p.claims.release(ctx, nodeName, holderOf(task.Pod))
}

// Recover releases the claims of pods that are not on the node they claimed. It runs before a leader's first session.
// No transaction runs at that time, so a former leader made such a claim and did not bind the pod.
func (p *plugin) Recover(ctx context.Context) error {
	return p.claims.endStale(ctx)
}
