// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// fence stops a process from writing to the API server while another process may lead. A process that was paused, or
// whose machine was suspended, may wake after its lease has expired. Without the fence, it would continue to write
// Bindings until the elector checks the clock. The fence cannot stop a write that was already sent.
//
// A stopped write fails with "too many requests": it was not applied, and may be retried. If the lease is really lost,
// the process exits before a retry.
type fence struct {
	// term is how long writes are allowed after a renewal of the lease. It is shorter than the duration of the lease,
	// so that writes in flight arrive before the lease expires.
	term time.Duration

	mu sync.Mutex
	// renewed is when the last successful renewal of the lease began; zero while this process does not hold the lease.
	renewed moment
}

// moment is a time on two clocks. The steady clock is never adjusted, but stops while the machine is suspended.
type moment struct{ steady, wall time.Time }

func now() moment {
	t := time.Now()
	return moment{steady: t, wall: t.Round(0)}
}

// since returns the time that passed from other to m: by the steady clock or the wall clock, whichever shows more.
func (m moment) since(other moment) time.Duration {
	return max(m.steady.Sub(other.steady), m.wall.Sub(other.wall))
}

// held records that a renewal of the lease succeeded. The renewal began at begun.
func (f *fence) held(begun moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = begun
}

// left records that the lease was released.
func (f *fence) left() { f.held(moment{}) }

// closed returns an error that says why this process may not write to the API server. It returns nil if this process
// renewed the lease less than f.term ago.
func (f *fence) closed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.steady.IsZero() {
		return apierrors.NewTooManyRequests("not sent: this scheduler does not hold the leader lease", 0)
	}
	age := now().since(f.renewed)
	if age < f.term {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("not sent: the leader lease was last renewed %s ago, another scheduler may lead",
		age.Round(time.Millisecond)), 0)
}

// wrap returns a copy of config whose clients write to the API server only while the fence allows writes.
func (f *fence) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fencedTransport{next, f} })
	return config
}

type fencedTransport struct {
	next  http.RoundTripper
	fence *fence
}

// RoundTrip sends the request if it is a read, or if the fence allows writes. Otherwise it returns an error.
func (t *fencedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		if err := t.fence.closed(); err != nil {
			if request.Body != nil {
				request.Body.Close()
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}
