// SPDX-License-Identifier: Apache-2.0

// Package powerup is an example of a plugin for kube-scheduler's framework that takes part in the scheduling of gangs. It imports
// only the packages framework and kubeplugin of the scheduler.
//
// Pods draw more power while they start than later, and a rack's power is limited. The plugin (plugin.go, budget.go) reserves the
// power of a pod in its rack from placing the pod to binding it, and notifies the rack's agent with a Lease. It is an ordinary
// kube-scheduler plugin: only spec.go is specific to this scheduler.
package powerup

import (
	"fmt"
	"time"

	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/kubeplugin"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "powerup"

const (
	wattsArgument     = "powerup.wattsPerRack"
	namespaceArgument = "powerup.namespace"
	defaultNamespace  = "volcano-system"
	defaultWatts      = 1000
)

// Spec describes the plugin. All plugins built from one Spec share the reservations, because a reload builds a new plugin while
// gangs are still being bound by the former one.
func Spec() framework.PluginSpec { return specWith(newBudget()) }

func specWith(starting *budget) framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Starts no more pods of a rack at a time than its power allows.",
		Arguments: []framework.Argument{
			{Name: wattsArgument, Type: framework.Int, Default: fmt.Sprint(defaultWatts), Doc: "What a rack has for pods that start, in watts."},
			{Name: namespaceArgument, Type: framework.String, Default: defaultNamespace, Doc: "The namespace of the Leases."},
		},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			watts, namespace := defaultWatts, defaultNamespace
			args.GetInt(&watts, wattsArgument)
			args.GetString(&namespace, namespaceArgument)
			return func(h framework.Handle) (framework.Plugin, error) {
				return kubeplugin.New(Name, h, func(h k8sframework.Handle) (k8sframework.Plugin, error) {
					return &PowerUp{client: h.ClientSet(), snapshot: h.SnapshotSharedLister, namespace: namespace, watts: watts, starting: starting}, nil
				}, kubeplugin.WithTimeout(10*time.Second))
			}, nil
		},
	}
}
