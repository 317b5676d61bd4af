// SPDX-License-Identifier: Apache-2.0

// Package powerup is an example of a plugin written for kube-scheduler's framework that takes part in the scheduling of gangs. Of the
// scheduler it imports the framework package and its kubeplugin.
//
// Pods draw more power while they start than later, and a rack has so much for that. The plugin (plugin.go, budget.go) reserves
// what a pod says it needs in its rack from the moment it is placed until it is bound, and notifies the rack's agent by a Lease. It
// is a kube-scheduler plugin like any other; spec.go is all that it needs here.
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

// Spec describes the plugin. What is reserved is known to all that are built of one Spec: a reload builds the plugin anew while
// gangs are being bound on the former one.
func Spec() framework.PluginSpec { return specWith(newBudget()) }

func specWith(starting *budget) framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Starts no more pods of a rack at a time than its power allows.",
		Arguments: []framework.Argument{
			{Name: wattsArgument, Type: framework.Int, Default: fmt.Sprint(defaultWatts), Doc: "What a rack has for pods that start, in watts."},
			{Name: namespaceArgument, Type: framework.String, Default: defaultNamespace, Doc: "The namespace of the Leases."},
		},
		New: func(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
			watts, namespace := defaultWatts, defaultNamespace
			args.GetInt(&watts, wattsArgument)
			args.GetString(&namespace, namespaceArgument)
			return kubeplugin.New(Name, h, func(h k8sframework.Handle) (k8sframework.Plugin, error) {
				return &PowerUp{client: h.ClientSet(), snapshot: h.SnapshotSharedLister, namespace: namespace, watts: watts, starting: starting}, nil
			}, kubeplugin.WithTimeout(10*time.Second))
		},
	}
}
