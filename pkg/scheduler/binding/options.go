// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

type options struct {
	// apiCalls bounds the calls to the API server under way, over all gangs; a namespace alone may have half of them. As many
	// other calls may hang.
	apiCalls int
	// perGang bounds the chains, rollbacks and binds under way in one transaction. A chain that runs longer than placeTime does
	// not count.
	perGang int
	// callTimeout bounds each call of Binder and Gatekeeper.
	callTimeout time.Duration
	// attempts bounds the Bindings sent for one member, except forbidden ones, which forbiddenFor bounds.
	attempts int
	retry    wait.Backoff
	rollback wait.Backoff
	// stuckAfter is how long a member waits for a step or its bind, or a failed one for its rollback, before the wait is
	// reported.
	stuckAfter time.Duration
	// drainLimit is how long a Drain goes on waiting after its context has ended.
	drainLimit time.Duration
}

func defaultOptions() options {
	return options{
		apiCalls:    128,
		perGang:     64,
		callTimeout: 15 * time.Second,
		attempts:    10,
		retry:       wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 10 * time.Second, Steps: math.MaxInt},
		rollback:    wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 30 * time.Second, Steps: math.MaxInt},
		stuckAfter:  time.Minute,
		drainLimit:  20 * time.Second,
	}
}

// Option changes how an Engine works.
type Option func(*options)

// WithMemberParallelism bounds the members of one transaction that run steps, are rolled back or are bound at a time. A member
// whose steps have run for placeTime waits for something else and no longer counts. Default 64.
func WithMemberParallelism(members int) Option {
	return func(o *options) { o.perGang = max(1, members) }
}
