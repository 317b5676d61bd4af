// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

type options struct {
	// apiCalls bounds the calls to the API server under way, over all gangs; a namespace alone may have half of them. As many
	// again may hang.
	apiCalls int
	// perGang bounds the chains, the rollbacks and the binds under way in one transaction.
	perGang int
	// callTimeout bounds each call of Binder and Gatekeeper.
	callTimeout time.Duration
	// attempts bounds the Bindings sent for one member, but for those that are forbidden, which forbiddenFor bounds.
	attempts int
	retry    wait.Backoff
	rollback wait.Backoff
	// stuckAfter is how long a member may wait for a step or its bind, or a failed one for its rollback, before it is reported.
	stuckAfter time.Duration
	// drainLimit is how long a Drain waits on after its context has ended.
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

// WithBindParallelism bounds the calls to the API server (Bindings and look-ups) under way at a time, over all
// gangs. They are shared so that some are left for whoever comes: a namespace that is alone has half of them. Calls that take
// longer than a second count no more, up to that number again. Default 128.
func WithBindParallelism(calls int) Option {
	return func(o *options) { o.apiCalls = max(1, calls) }
}

// WithMemberParallelism bounds the members of one transaction that run steps, are rolled back or are bound at a
// time. Default 64.
func WithMemberParallelism(members int) Option {
	return func(o *options) { o.perGang = max(1, members) }
}

// WithCallTimeout bounds each call of the Binder and the Gatekeeper. Default 15 s.
func WithCallTimeout(d time.Duration) Option {
	return func(o *options) { o.callTimeout = d }
}

// WithBindRetry sets how many Bindings are sent at most for one member, those aside that are forbidden, which is for good after
// 5 s, and the waits between them, which also space look-ups. The waits stop growing after backoff.Steps. Default 10 attempts, waits from 100 ms to 10 s.
func WithBindRetry(attempts int, backoff wait.Backoff) Option {
	return func(o *options) { o.attempts, o.retry = max(1, attempts), backoff }
}

// WithRollbackRetry sets the waits between the runs of a failing rollback, whose number has no bound. The waits
// stop growing after backoff.Steps. Default 200 ms to 30 s.
func WithRollbackRetry(backoff wait.Backoff) Option {
	return func(o *options) { o.rollback = backoff }
}

// WithStuckAfter sets how long a member may wait in a step and for its bind, and a failed one for its rollback, before
// Observer.Delayed is called. Default one minute.
func WithStuckAfter(d time.Duration) Option {
	return func(o *options) { o.stuckAfter = d }
}

// WithDrainLimit sets how long Drain goes on waiting for rollbacks and binds after its context has ended.
// Default 20 s.
func WithDrainLimit(d time.Duration) Option {
	return func(o *options) { o.drainLimit = d }
}
