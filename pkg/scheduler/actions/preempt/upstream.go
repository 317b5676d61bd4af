// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcreclaim "volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// UpstreamSuffix ends the names of upstream's actions preempt and reclaim.
const UpstreamSuffix = "-upstream"

// upstreams is one of upstream's actions under another name (UpstreamSuffix). It evicts pods for one member of a
// gang after the other, on one node after the other.
type upstreams struct{ vcframework.Action }

// Upstreams returns upstream's actions preempt and reclaim under the names preempt-upstream and reclaim-upstream.
func Upstreams() []framework.Action {
	return []framework.Action{upstreams{vcpreempt.New()}, upstreams{vcreclaim.New()}}
}

// Name implements framework.Action.
func (u upstreams) Name() string { return u.Action.Name() + UpstreamSuffix }

// Execute implements framework.Action.
func (u upstreams) Execute(ssn *framework.Session) { u.Action.Execute(ssn.Session) }
