// SPDX-License-Identifier: Apache-2.0

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
	// longestRetryAfter is the longest pause that a Retry-After of the API server can cause. startingRetryAfter is the
	// longest pause for an API server that starts: it asks for five seconds, but is ready in less than one second.
	longestRetryAfter  = 30 * time.Second
	startingRetryAfter = time.Second
	// starting is how long after an outage the API server may reject requests because it has not loaded its roles yet.
	// During this time, requests of informers are retried after such a rejection.
	starting = 5 * time.Second
	// pathFailureGrace limits how long failures of requests for one URL path count as an outage, while the API server
	// responds to requests for other paths.
	pathFailureGrace = 30 * time.Second
	// watchExpiry is how long the start of a watch is retried. After a longer outage, the API server would reject the
	// watch's resource version as too old, and the informer would have to list again.
	watchExpiry = 2 * time.Second
	// briefWatch is how long a watch must last so that the informer does not treat its end as a failure: slightly more
	// than one second.
	briefWatch = 1100 * time.Millisecond
	// snippet is the maximum number of bytes of a response that are logged.
	snippet = 200
)

// An Outage keeps informers from pausing while the API server is unavailable. An informer that fails pauses for up to a
// minute, which no option of client-go shortens. Its pauses become short again only after minutes. Then each informer
// recovers at a different time, and the process sees only parts of the cluster. So requests of informers do not fail
// here: a list waits, inside the request, until the API server responds or the informers end. A watch whose connection
// breaks ends without an error, and the informer then starts another watch.
//
// Each request is retried, with pauses. The first response to any retried request ends the pauses of all requests.
//
// If a watch cannot be started for some time, the informer gets the response that its resource version is too old. The
// API server would send this response after the outage. So the informer pauses once while the API server is still
// unavailable.
//
// Requests for one kind may fail for long while requests for other kinds are answered, for example because a conversion
// webhook is unavailable. They are retried too, but they do not count as an outage, because otherwise the outage would
// never end.
//
// An Outage also records which kinds the API server does not let informers list, for callers that wait until caches are
// full.
type Outage struct {
	// life ends all waiting requests when it is done.
	life context.Context

	mu      sync.Mutex
	failing map[string]failure
	// began is when the last outage began. back is when the API server first responded again after that; zero if it has
	// not. back becomes zero again when requests for another URL path begin to fail.
	began, back time.Time
	// over is the function that WhenOver sets, such as one that ends the backoffs of gangs. It is called only after an
	// outage of at least watchExpiry, in which gangs may have failed several times.
	over func()
	// answer is closed, and replaced by a new channel, when the API server responds to a request for a URL path for
	// which it was unavailable before.
	answer chan struct{}
}

// failure says since when, and why, requests for the collection at one URL path fail.
type failure struct {
	since  time.Time
	reason string
	// passing reports whether the API server was unreachable or could not answer. It is false if the API server rejected
	// the request, or if the client gave up the request.
	passing bool
	// alone is when the API server first responded to a request for another path while requests for this path failed;
	// zero if it has not. own reports whether alone is so long ago that the failure does not count as an outage.
	alone time.Time
	own   bool
}

// New returns an Outage. When life ends, all waiting requests end.
func New(life context.Context) *Outage {
	return &Outage{life: life, failing: map[string]failure{}, over: func() {}, answer: make(chan struct{})}
}

// WhenOver sets the function f, which is called after an outage of at least watchExpiry, when the API server has
// responded to all informers. Informers whose failures do not count as an outage are ignored. f is called on a goroutine
// of an informer and must not block.
func (o *Outage) WhenOver(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = f
}

// Wrap returns a copy of the config whose clients let informers wait during outages. Other requests, such as gets and
// writes, still fail at once. In responses to these requests, only the Retry-After of a starting API server is
// shortened.
func (o *Outage) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &outageTransport{next, o} })
	return config
}

// Rejected returns a text that lists the collections that informers cannot list now, with the reasons; empty if they can
// list all.
func (o *Outage) Rejected() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, path := range slices.Sorted(maps.Keys(o.failing)) {
		f := o.failing[path]
		all = append(all, fmt.Sprintf("%s: %s (for %s)", path, f.reason, time.Since(f.since).Round(time.Second)))
	}
	return strings.Join(all, "; ")
}

// failed records that a request for the path failed, and logs the first failure of an outage. passing is false if the
// API server rejected the request. A rejection is a response, so it may end an outage.
func (o *Outage) failed(path, reason string, passing bool) {
	o.record(path, &failure{since: time.Now(), reason: reason, passing: passing})
}

// succeeded records that a request for the path succeeded.
func (o *Outage) succeeded(path string) { o.record(path, nil) }

// abandoned records that the client gave up a request for the path before a response. The path then no longer prolongs
// the outage, unless another request for it fails.
func (o *Outage) abandoned(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.failing[path]; known {
		f.passing = false
		o.failing[path] = f
	}
}

// record records the failure f of a request for the path, or a success if f is nil. At the end of a long outage, it
// calls the function that WhenOver set.
func (o *Outage) record(path string, f *failure) {
	if over := o.put(path, f); over != nil {
		over()
	}
}

// put records the failure f, or a success if f is nil. If this ends an outage of at least watchExpiry, put returns the
// function that WhenOver set, for the caller to call without the lock; otherwise nil.
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
		klog.InfoS("The API server is unavailable; informers wait for it", "request", path, "reason", f.reason)
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

// after returns the failure f with the fields since and alone taken over from former, the last failure of the same path.
// former is zero if requests for the path did not fail before.
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

// answered records that the API server responded to a request for the path. If requests for the path failed before,
// answered ends the pauses of all requests. The caller holds mu.
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

// returned records the first response of the API server after an outage. The caller holds mu.
func (o *Outage) returned() {
	if o.back.IsZero() && !o.began.IsZero() {
		o.back = time.Now()
	}
}

// unready reports whether the API server has responded again only recently. It may then reject requests because it has
// not loaded its roles yet.
func (o *Outage) unready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned()
	return !o.back.IsZero() && time.Since(o.back) < starting
}

// nextAnswer returns a channel that is closed when the API server next responds to a request for a URL path for which
// it was unavailable before.
func (o *Outage) nextAnswer() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer
}

// away reports whether the API server is unavailable. It ignores single paths whose requests have failed for a long
// time while the API server responded to others. The caller holds mu.
func (o *Outage) away() bool {
	for _, f := range o.failing {
		if f.passing && !f.own {
			return true
		}
	}
	return false
}
