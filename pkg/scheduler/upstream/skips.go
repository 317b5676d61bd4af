// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// ForgetSkips makes the next pre-predicate of the task decide again which of Kubernetes' filters are skipped for it.
// Upstream only adds to these filters. So a filter that had nothing to check once, such as the one for anti-affinity of pods
// that were evicted for a trial, would be skipped after the trial as well.
func ForgetSkips(ssn *vcframework.Session, task *api.TaskInfo) {
	ssn.GetCycleState(task.UID).SetSkipFilterPlugins(nil)
}
