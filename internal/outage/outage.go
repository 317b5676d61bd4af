// SPDX-License-Identifier: Apache-2.0

// Package outage lets the informers of a process survive an outage of the API server. Their requests wait for the end of
// the outage, so that all informers work again within moments. It is independent of scheduling.
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
	// longestRetryAfter is the longest Retry-After of the API server that is obeyed. startingRetryAfter is the limit for an
	// API server that starts: it asks for five seconds, but is ready after a fraction of one.
	longestRetryAfter  = 30 * time.Second
	startingRetryAfter = time.Second
	// starting is for how long after an outage a refusal of the API server may be temporary, because the server has not
	// loaded its roles yet.
	starting = 5 * time.Second
	// pathFailureGrace is the time after which a URL path whose requests fail, while requests for other paths are answered,
	// no longer counts as an outage of the API server.
	pathFailureGrace = 30 * time.Second
	// watchExpiry is for how long the start of a watch is retried. An API server that recovers later would reject the
	// version of the watch as too old, and the informer would have to list anyway.
	watchExpiry = 2 * time.Second
	// briefWatch is the shortest duration of a watch that an informer does not treat as a failure: slightly more than
	// one second.
	briefWatch = 1100 * time.Millisecond
	// snippet limits how much of a response is logged.
	snippet = 200
)

// An Outage keeps informers from pausing while the API server is unavailable. An informer that fails pauses for up to a
// minute, which no option of client-go shortens, and it takes minutes to return to short pauses. Then each informer
// recovers at a different time, and the process sees only parts of the cluster. So requests of informers do not fail here:
// a list waits, inside the request, until the API server answers it or the informers end. A watch whose connection breaks
// just ends, and the informer then starts another one.
//
// Each request is retried, with pauses. The first answer to any request ends the pauses of all requests.
//
// A watch that cannot be started for some time gets the response that its version is too old, which the API server would
// give it after the outage. The informer pauses once after that response, while the API server is still unavailable.
//
// Requests for a kind that fail for long while requests for other kinds are answered, for example because a conversion
// webhook is unavailable, are retried like the others. But they do not count as an outage, because otherwise no outage
// would ever end.
//
// An Outage also records which kinds the API server does not let informers list, for callers that wait until caches are
// full.
type Outage struct {
	// life is the context whose end ends all waiting requests.
	life context.Context

	mu      sync.Mutex
	failing map[string]failure
	// began is when the last outage began. back is when the API server first answered a failing request after that; zero if
	// it has answered none since the last new failure.
	began, back time.Time
	// over is called at the end of an outage that was long enough for gangs to fail repeatedly.
	over func()
	// answer is a channel that is closed, and replaced by a new one, when a request for a failing path is answered.
	answer chan struct{}
}

// failure is why requests for the collection at one URL path fail.
type failure struct {
	since  time.Time
	reason string
	// passing reports whether the API server was unreachable or could not answer. It is false if the API server refused the
	// request.
	passing bool
	// alone is when a request for another path was first answered while this path failed; zero if none was. own reports
	// whether that is so long ago that the failure does not count as an outage.
	alone time.Time
	own   bool
}

// New returns an Outage. The end of life ends all its waiting requests.
func New(life context.Context) *Outage {
	return &Outage{life: life, failing: map[string]failure{}, over: func() {}, answer: make(chan struct{})}
}

// WhenOver sets the function that is called when the API server has answered all informers after an outage. Informers whose
// failures do not count as an outage are left out. The function is called on a goroutine of an informer and must not block.
func (o *Outage) WhenOver(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = f
}

// Wrap returns a copy of the config with which informers wait during outages. Requests that are no informer's are sent
// unchanged: gets and writes fail at once, and their callers decide. Only the Retry-After of a starting API server is
// shortened in responses to them.
func (o *Outage) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &outageTransport{next, o} })
	return config
}

// Refused returns a text with the collections that informers cannot list now, and the reasons; empty if there are none.
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

// failed records that a request for the path failed, and logs the first failure of an outage. passing is false if the API
// server refused the request; a refusal is an answer, so it may end an outage.
func (o *Outage) failed(path, reason string, passing bool) {
	o.record(path, &failure{since: time.Now(), reason: reason, passing: passing})
}

// succeeded records that a request for the path succeeded.
func (o *Outage) succeeded(path string) { o.record(path, nil) }

// abandoned records that a request for the path was given up without an answer. The outage may then end before a request
// for the path is answered, unless another one is sent.
func (o *Outage) abandoned(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.failing[path]; known {
		f.passing = false
		o.failing[path] = f
	}
}

// record records the failure f of a request for the path, or a success if f is nil. At the end of an outage that was long
// enough it calls the function set by WhenOver.
func (o *Outage) record(path string, f *failure) {
	if over := o.put(path, f); over != nil {
		over()
	}
}

// put does the work of record, but returns the function to call instead of calling it; nil if there is none to call.
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

// after returns the failure f combined with the former failure of the same path, which is zero if the path did not fail
// before.
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

// answered records that a request for the path was answered, and ends the pauses of other requests if the path failed
// before. The caller holds mu.
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

// returned records that the API server answers again after an outage. The caller holds mu.
func (o *Outage) returned() {
	if o.back.IsZero() && !o.began.IsZero() {
		o.back = time.Now()
	}
}

// unready reports whether a refusal may come from an API server that has just started and has not loaded its roles.
func (o *Outage) unready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned()
	return !o.back.IsZero() && time.Since(o.back) < starting
}

// nextAnswer returns a channel that is closed when a request for a failing path is answered.
func (o *Outage) nextAnswer() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer
}

// away reports whether the API server does not answer requests, apart from failures of single paths that have lasted for
// long. The caller holds mu.
func (o *Outage) away() bool {
	for _, f := range o.failing {
		if f.passing && !f.own {
			return true
		}
	}
	return false
}
