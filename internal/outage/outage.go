// SPDX-License-Identifier: Apache-2.0

// Package outage lets the informers of a process survive an outage of the API server: their requests wait for its end,
// so that all of them work again within moments. It is independent of scheduling.
package outage

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// A failed request is sent again after firstPause. The pause doubles, with jitter, up to lastPause.
	firstPause  = 50 * time.Millisecond
	lastPause   = time.Second
	pauseJitter = 0.5
	// longestRetryAfter limits the Retry-After of the API server that is obeyed. startingRetryAfter is the limit for an
	// API server that starts: it asks for five seconds, but is ready after a fraction of one.
	longestRetryAfter  = 30 * time.Second
	startingRetryAfter = time.Second
	// starting is for how long after an outage an API server may refuse requests that it allows otherwise, since it has
	// not loaded its roles yet.
	starting = 5 * time.Second
	// pathFailureGrace is the time after which a path that fails, while others are answered, no longer counts as an outage of
	// the API server.
	pathFailureGrace = 30 * time.Second
	// watchExpiry is for how long a watch is retried. An API server that recovers later than that would reject the
	// watch's version as too old, and the informer would have to list.
	watchExpiry = 2 * time.Second
	// briefWatch is the shortest duration of a watch that an informer does not treat as a failure: slightly more than
	// one second.
	briefWatch = 1100 * time.Millisecond
	// snippet limits how much of a response is logged.
	snippet = 200
)

// An Outage keeps informers from pausing while the API server is unavailable. An informer that fails pauses for up to a
// minute, which no option of client-go shortens, and it takes minutes to return to short pauses. Then each informer
// recovers at a different time, and the process sees only parts of the cluster. So their requests do not fail: a list
// waits, inside the request, until the API server answers it or the informers end. A watch that breaks just ends, and
// the informer then starts another one.
//
// Each request is retried, with pauses. The first answer ends the pauses of all.
//
// A watch that cannot be started for some time gets the response that its version is too old, which it would get in the
// end: the informer's only pause then passes while the API server is still unavailable.
//
// A kind that fails for long while others are answered, for example because its conversion webhook is unavailable, is
// retried like the others. But it does not count as an outage, because otherwise no outage would ever end.
//
// An Outage also records which kinds the API server does not let informers list, for callers that wait until caches are
// full.
type Outage struct {
	// life is the context that ends all waiting.
	life context.Context

	mu      sync.Mutex
	failing map[string]failure
	// began is when the last outage began. back is when the API server first answered a failing request again; zero if
	// it has not since the last new failure.
	began, back time.Time
	// over is called at the end of an outage that was long enough for gangs to fail repeatedly.
	over func()
	// answer is closed and replaced when a failing path is answered.
	answer chan struct{}
}

// failure is why requests for a collection fail.
type failure struct {
	since  time.Time
	reason string
	// passing reports whether the API server was unreachable or could not answer, as opposed to a refusal.
	passing bool
	// alone is when another path was first answered while this one failed; zero if none was. own reports whether that
	// was long ago.
	alone time.Time
	own   bool
}

// New returns an Outage whose waits end with life.
func New(life context.Context) *Outage {
	return &Outage{life: life, failing: map[string]failure{}, over: func() {}, answer: make(chan struct{})}
}

// WhenOver has f called when the API server has answered all informers after an outage, except informers with failures of their
// own. It is called on a goroutine of an informer and must not block.
func (o *Outage) WhenOver(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = f
}

// Wrap makes informers that use the config wait during outages. Other requests are sent unchanged: gets and writes fail
// at once, and their callers decide. Only the Retry-After of a starting API server is shortened for them.
func (o *Outage) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &outageTransport{next, o} })
	return config
}

// Refused returns the collections that cannot be listed, with the reasons, sorted and joined; empty if there are none.
func (o *Outage) Refused() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, path := range slices.Sorted(maps.Keys(o.failing)) {
		f := o.failing[path]
		all = append(all, fmt.Sprintf("%s: %s (for %s)", path, f.reason, time.Since(f.since).Round(time.Second)))
	}
	return strings.Join(all, "; ")
}

// failed records a failure, and logs the first one of an outage. A refusal counts as an answer: it may end an outage.
func (o *Outage) failed(path, reason string, passing bool) {
	o.record(path, &failure{since: time.Now(), reason: reason, passing: passing})
}

// succeeded records that a request for the path succeeded.
func (o *Outage) succeeded(path string) { o.record(path, nil) }

// abandoned records that a request for the path ended without an answer. The outage ends without an answer to it, unless
// another request is sent for it.
func (o *Outage) abandoned(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.failing[path]; known {
		f.passing = false
		o.failing[path] = f
	}
}

// record records a failure of requests for the path, or nil for a success, and reports the end of an outage.
func (o *Outage) record(path string, f *failure) {
	if over := o.put(path, f); over != nil {
		over()
	}
}

// put does the same, but returns the callback if an outage ended that was long enough.
func (o *Outage) put(path string, f *failure) (over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.away()
	former := o.failing[path]
	if f == nil {
		delete(o.failing, path)
	} else {
		o.failing[path] = f.after(former)
	}
	if f != nil && f.passing {
		if !former.passing {
			o.back = time.Time{}
		}
	} else {
		o.answered(path, former)
	}
	switch away := o.away(); {
	case away && !before:
		klog.InfoS("The API server is unavailable, informers wait for it", "request", path, "reason", f.reason)
		o.began = time.Now()
	case before && !away && o.back.IsZero():
		klog.InfoS("A request fails while the API server is available", "request", path, "reason", f.reason)
	case before && !away:
		lasted := time.Since(o.began)
		klog.InfoS("The API server is available again", "after", lasted.Round(time.Millisecond))
		if lasted >= watchExpiry {
			return o.over
		}
	}
	return nil
}

// after returns the failure combined with the former failure of its path, which is zero if there was none.
func (f failure) after(former failure) failure {
	if !former.since.IsZero() {
		f.since = former.since
	}
	if f.passing && former.passing {
		f.alone = former.alone
		f.own = !f.alone.IsZero() && time.Since(f.alone) >= pathFailureGrace
	}
	return f
}

// answered records that a request for a failing path was answered. It is called with mu held.
func (o *Outage) answered(path string, former failure) {
	for other, f := range o.failing {
		if other != path && f.passing && f.alone.IsZero() {
			f.alone = time.Now()
			o.failing[other] = f
		}
	}
	if former.passing {
		o.returned()
		close(o.answer)
		o.answer = make(chan struct{})
	}
}

// returned records that the API server answers again after an outage. It is called with mu held.
func (o *Outage) returned() {
	if o.back.IsZero() && !o.began.IsZero() {
		o.back = time.Now()
	}
}

// unready reports whether a refusal may come from an API server that has just started.
func (o *Outage) unready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned()
	return !o.back.IsZero() && time.Since(o.back) < starting
}

// nextAnswer returns a channel that is closed when a failing path is answered.
func (o *Outage) nextAnswer() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer
}

// away reports whether requests fail because the API server does not answer, and not for their own reasons. It is
// called with mu held.
func (o *Outage) away() bool {
	for _, f := range o.failing {
		if f.passing && !f.own {
			return true
		}
	}
	return false
}
