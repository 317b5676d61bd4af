// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// AvoidFn names nodes that the job's tasks are to be placed on only if they cannot be placed without them. It is a wish and
// no verdict: allocate first tries without these nodes, and then with them.
type AvoidFn func(job *api.JobInfo) []string

// AddAvoidFn adds the plugin's say on nodes to be avoided.
func (ssn *Session) AddAvoidFn(plugin string, fn AvoidFn) {
	ssn.avoids = append(ssn.avoids, func(job *api.JobInfo) (nodes []string) {
		defer func() {
			if p := recover(); p != nil {
				klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			}
		}()
		return fn(job)
	})
}

// Avoided lists the nodes that plugins wish the job to avoid, sorted.
func (ssn *Session) Avoided(job *api.JobInfo) []string {
	var nodes []string
	for _, avoid := range ssn.avoids {
		nodes = append(nodes, avoid(job)...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
