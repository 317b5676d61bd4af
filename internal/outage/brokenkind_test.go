// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// twoKinds is an API server with two resources, pods and brokenKind, which informers list every second. Requests for
// brokenKind fail while broken is set.
type twoKinds struct {
	*Outage
	away, broken atomic.Bool
	// forbids is the time until which every request is forbidden, in nanoseconds.
	forbids atomic.Int64
	// over counts the reported ends of outages, and rejected the forbidden answers that reached informers.
	over, rejected atomic.Int32
}

const brokenKind = "/apis/topology.volcano.sh/v1alpha1/hypernodes"

func (k *twoKinds) RoundTrip(request *http.Request) (*http.Response, error) {
	status := http.StatusOK
	switch {
	case k.away.Load():
		return nil, errAway
	case time.Now().UnixNano() < k.forbids.Load():
		status = http.StatusForbidden
	case k.broken.Load() && request.URL.Path == brokenKind:
		status = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody}, nil
}

// askAlways lists the path every second until ctx ends.
func (k *twoKinds) askAlways(ctx context.Context, t *testing.T, path string) {
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server"+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		response, err := (&outageTransport{k, k.Outage}).RoundTrip(request)
		if err == nil {
			if response.StatusCode == http.StatusForbidden {
				k.rejected.Add(1)
			}
			_ = response.Body.Close()
		}
		sleepUntil(ctx, time.Second)
	}
}

func sleepUntil(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// inTwoKinds runs play with informers of both resources.
func inTwoKinds(t *testing.T, play func(t *testing.T, k *twoKinds)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		k := &twoKinds{Outage: New(ctx)}
		k.WhenOver(func() { k.over.Add(1) })
		go k.askAlways(ctx, t, "/api/v1/pods")
		go k.askAlways(ctx, t, brokenKind)
		play(t, k)
		stop()
		synctest.Wait()
	})
}

// leave makes the API server unreachable for 30 s, and then makes it forbid every request for one second.
func (k *twoKinds) leave() {
	k.away.Store(true)
	time.Sleep(30 * time.Second)
	k.away.Store(false)
	k.forbids.Store(time.Now().Add(time.Second).UnixNano())
}

func (k *twoKinds) want(t *testing.T, over int32, when string) {
	t.Helper()
	if got := k.over.Load(); got != over {
		t.Errorf("%s: the end of an outage was reported %d times, want %d", when, got, over)
	}
	if got := k.rejected.Load(); got != 0 {
		t.Errorf("%s: %d informers got a forbidden answer", when, got)
	}
}

// TestAKindThatStaysBrokenHidesNoOutage checks that the end of each outage is reported although one resource keeps
// failing. Formerly the end was never reported, so callers of WhenOver waited forever.
func TestAKindThatStaysBrokenHidesNoOutage(t *testing.T) {
	tests := map[string]struct {
		// before is how long the resource has failed when the first outage begins, and soon is how soon the end of
		// that outage must be reported.
		before, soon time.Duration
	}{
		"it was broken for long":        {before: time.Minute, soon: 5 * time.Second},
		"it broke a moment ago":         {before: 5 * time.Second, soon: 5 * time.Second},
		"it comes broken of the outage": {before: 0, soon: pathFailureGrace + 5*time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inTwoKinds(t, func(t *testing.T, k *twoKinds) {
				time.Sleep(10 * time.Second)
				k.broken.Store(true)
				time.Sleep(tt.before)
				k.want(t, 0, "before any")
				for i := range int32(3) {
					k.leave()
					k.want(t, i, "while the API server is away")
					soon := 5 * time.Second
					if i == 0 {
						soon = tt.soon
					}
					time.Sleep(soon)
					k.want(t, i+1, "soon after its return")
					time.Sleep(time.Minute)
					k.want(t, i+1, "long after its return")
				}
				k.broken.Store(false)
				time.Sleep(time.Minute)
				k.want(t, 3, "when the kind is well again")
			})
		})
	}
}

// TestAKindThatBreaksAloneIsNoOutage checks that a single failing resource is not an outage, whether or not it
// recovers.
func TestAKindThatBreaksAloneIsNoOutage(t *testing.T) {
	inTwoKinds(t, func(t *testing.T, k *twoKinds) {
		time.Sleep(10 * time.Second)
		k.broken.Store(true)
		time.Sleep(time.Hour)
		k.want(t, 0, "while a kind is broken")
		k.broken.Store(false)
		time.Sleep(time.Minute)
		k.want(t, 0, "when it is well again")
		k.leave()
		time.Sleep(5 * time.Second)
		k.want(t, 1, "after one of all")
	})
}

// TestEachOutageHasAStart checks that a second outage is noticed even if the end of the first one was not reported yet,
// because one resource still fails. So after each outage, informers receive no rejection from an API server that has
// not loaded its roles yet.
func TestEachOutageHasAStart(t *testing.T) {
	for name, broken := range map[string]bool{"of one kind not all is well between": true, "all is well between": false} {
		t.Run(name, func(t *testing.T) {
			inTwoKinds(t, func(t *testing.T, k *twoKinds) {
				time.Sleep(10 * time.Second)
				k.broken.Store(broken)
				for range 3 {
					k.leave()
					time.Sleep(10 * time.Second)
				}
				time.Sleep(time.Minute)
				if got := k.rejected.Load(); got != 0 {
					t.Errorf("%d informers got a forbidden answer", got)
				}
				if got := k.over.Load(); got == 0 {
					t.Error("no end was reported")
				}
			})
		})
	}
}
