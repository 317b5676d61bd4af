// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// withMemberParallelism sets options.perGang.
func withMemberParallelism(members int) Option {
	return func(o *options) { o.perGang = max(1, members) }
}

func withBindParallelism(calls int) Option {
	return func(o *options) { o.apiCalls = max(1, calls) }
}

func withCallTimeout(d time.Duration) Option {
	return func(o *options) { o.callTimeout = d }
}

func withBindRetry(attempts int, backoff wait.Backoff) Option {
	return func(o *options) { o.attempts, o.retry = max(1, attempts), backoff }
}

func withStuckAfter(d time.Duration) Option {
	return func(o *options) { o.stuckAfter = d }
}

func withDrainLimit(d time.Duration) Option {
	return func(o *options) { o.drainLimit = d }
}
