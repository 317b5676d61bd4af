// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// UrgentFn is true if the job holds, or has been promised, resources that are of no use before it is placed.
type UrgentFn func(job *api.JobInfo) bool

// AddUrgentFn adds the plugin's say on which jobs allocate places first: before the order of queues, and of jobs in them,
// comes into force. It moves that job alone, up to its minimum, and within its queue's limits; what else the job and its
// queue have waits for its turn.
func (ssn *Session) AddUrgentFn(plugin string, fn UrgentFn) {
	ssn.urgent = append(ssn.urgent, func(job *api.JobInfo) (urgent bool) {
		defer func() {
			if p := recover(); p != nil {
				klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
			}
		}()
		return fn(job)
	})
}

// Urgent is true if a plugin wants the job placed first.
func (ssn *Session) Urgent(job *api.JobInfo) bool {
	for _, urgent := range ssn.urgent {
		if urgent(job) {
			return true
		}
	}
	return false
}
