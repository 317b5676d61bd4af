// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

type options struct {
	// apiCalls bounds the concurrent calls to the API server of all gangs. A single namespace may use half of them. Up
	// to apiCalls further calls may hang without counting.
	apiCalls int
	// perGang bounds the concurrent chains, rollbacks and binds of one transaction. A chain that has run longer
	// than placeTime is probably waiting for something outside this process, and does not count.
	perGang int
	// callTimeout bounds each call of Binder and Gatekeeper.
	callTimeout time.Duration
	// attempts bounds the Bindings sent for one member. An answer Forbidden does not end the attempts; forbiddenFor bounds
	// how long such answers may go on.
	attempts int
	retry    wait.Backoff
	rollback wait.Backoff
	// stuckAfter is how long a member waits for a step, a bind or a rollback before the wait is reported.
	stuckAfter time.Duration
	// drainLimit is how long a Drain continues to wait after its context has ended.
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
