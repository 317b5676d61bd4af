// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	commonutil "volcano.sh/volcano/pkg/util"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// sent sends a request through the fence. It returns nil if the fence let the request pass.
func sent(t *testing.T, f *fence, method string) error {
	t.Helper()
	asked := 0
	server := roundTripper(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	config := f.wrap(&rest.Config{Host: "https://server", Transport: server})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, "https://server/api/v1/pods", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if (err == nil) != (asked == 1) {
		t.Errorf("%s: sent %d times, and the error is %v", method, asked, err)
	}
	if err == nil {
		response.Body.Close()
	}
	return err
}

// TestOnlyTheHolderOfTheLeaseWrites checks that only the holder of the lease can write. A process that was suspended
// beyond its lease used to write its Bindings when it resumed, to nodes that the next leader had filled.
func TestOnlyTheHolderOfTheLeaseWrites(t *testing.T) {
	tests := map[string]struct {
		play func(f *fence)
		want string
	}{
		"it never held it":        {func(*fence) {}, "does not hold"},
		"it was just renewed":     {func(f *fence) { f.held(now()) }, ""},
		"it was renewed in time":  {func(f *fence) { f.held(now()); time.Sleep(9 * time.Second) }, ""},
		"it slept":                {func(f *fence) { f.held(now()); time.Sleep(10 * time.Second) }, "renewed 10s ago"},
		"it slept and renewed it": {func(f *fence) { f.held(now()); time.Sleep(time.Minute); f.held(now()) }, ""},
		"it gave it up":           {func(f *fence) { f.held(now()); f.left() }, "does not hold"},
		"the machine was suspended": {func(f *fence) {
			f.held(moment{steady: time.Now(), wall: time.Now().Round(0).Add(-time.Minute)})
		}, "renewed 1m0s ago"},
		"it slept, and the wall clock was set back": {func(f *fence) {
			f.held(moment{steady: time.Now().Add(-time.Minute), wall: time.Now().Round(0).Add(time.Hour)})
		}, "renewed 1m0s ago"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fence{term: 10 * time.Second}
				tt.play(f)
				for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					err := sent(t, f, method)
					switch {
					case tt.want == "" && err != nil:
						t.Errorf("%s is kept back: %v", method, err)
					case tt.want != "" && (!apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), tt.want)):
						t.Errorf("%s ends with %v, want a TooManyRequests error with %q", method, err, tt.want)
					}
				}
				if err := sent(t, f, http.MethodGet); err != nil {
					t.Errorf("a read is kept back: %v", err)
				}
			})
		})
	}
}

// election wins the election for the lease and calls lead. While away is set, the lease cannot be written. It checks
// that the fence is closed before this process holds the lease, and after it has released the lease.
func election(t *testing.T, away *atomic.Bool, lead func(p *process)) {
	opts := &Options{ServerOption: options.NewServerOption()}
	commonutil.LeaderElectionDefault(&opts.LeaderElection)
	p := &process{opts: opts}
	answer := func() error {
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	lock := &lease{get: notFound, create: answer, update: answer}
	if p.fence.closed() == nil {
		t.Error("the fence is open before the lease is held")
	}
	led := make(chan struct{})
	err := p.elect(t.Context(), lock, func(context.Context, context.Context) error {
		defer close(led)
		lead(p)
		return nil
	})
	<-led
	if lost := errors.Is(err, errLeaseLost); lost != away.Load() {
		t.Errorf("the election ended with %v, want a lost lease: %t", err, away.Load())
	}
	if lock.given && p.fence.closed() == nil {
		t.Error("the fence is open after the lease was given back")
	}
}

func TestTheFenceIsOpenWhileTheLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		election(t, &away, func(p *process) {
			for range 100 {
				time.Sleep(time.Second)
				if err := p.fence.closed(); err != nil {
					t.Fatalf("the fence is closed: %v", err)
				}
			}
		})
	})
}

func TestTheFenceIsClosedBeforeTheLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		election(t, &away, func(p *process) {
			time.Sleep(time.Minute)
			away.Store(true)
			time.Sleep(p.opts.LeaderElection.LeaseDuration.Duration - 2*time.Second)
			if p.fence.closed() == nil {
				t.Error("the fence is open shortly before the lease runs out")
			}
		})
	})
}

// TestTheFenceIsClosedAfterTheRenewDeadline checks that the fence is closed after the renew deadline although the
// elector does not notice it: its call does not return, as in a suspended process.
func TestTheFenceIsClosedAfterTheRenewDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &Options{ServerOption: options.NewServerOption()}
		commonutil.LeaderElectionDefault(&opts.LeaderElection)
		p := &process{opts: opts}
		var hangs atomic.Bool
		woken := make(chan struct{})
		answer := func() error {
			if hangs.Load() {
				<-woken
			}
			return nil
		}
		lock := &lease{get: notFound, create: answer, update: answer}
		_ = p.elect(t.Context(), lock, func(context.Context, context.Context) error {
			defer close(woken)
			time.Sleep(time.Minute)
			if err := p.fence.closed(); err != nil {
				t.Errorf("the fence is closed while the lease is renewed: %v", err)
			}
			hangs.Store(true)
			time.Sleep(opts.LeaderElection.RenewDeadline.Duration)
			if p.fence.closed() == nil {
				t.Errorf("the fence is open %v after the last renewal", opts.LeaderElection.RenewDeadline.Duration)
			}
			return nil
		})
	})
}

// TestFenceIsClosedBeforeTheLeaseIsReleased checks that the fence is closed before the lease is released. An elector
// that could not renew the lease in time releases it before it reports the loss.
func TestFenceIsClosedBeforeTheLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{term: time.Minute}
		lock := &guardedLock{Interface: &lease{update: func() error {
			if f.closed() == nil {
				t.Error("others may take the lease, and the fence is open")
			}
			return nil
		}}, fence: f}
		f.held(now())
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || f.closed() == nil {
			t.Errorf("the lease is given back with %v, and then the fence is closed for %v", err, f.closed())
		}
	})
}

// TestARenewalCountsFromWhenItWasSent checks that a renewal counts from the time when it was sent. Other processes may
// count from its arrival at the API server, which is after that time and before the response.
func TestARenewalCountsFromWhenItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{term: 10 * time.Second}
		lock := &guardedLock{Interface: &lease{update: func() error {
			time.Sleep(6 * time.Second)
			return nil
		}}, fence: f}
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
			t.Fatal(err)
		}
		if err := f.closed(); err != nil {
			t.Errorf("the fence is closed 6 s after the renewal was sent: %v", err)
		}
		time.Sleep(4 * time.Second)
		if f.closed() == nil {
			t.Error("the fence is open 10 s after the renewal was sent")
		}
	})
}
