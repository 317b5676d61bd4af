// SPDX-License-Identifier: Apache-2.0

// Package outage lets the informers of a process survive an outage of the API server: their requests wait for its return, so that all of
// them are back within moments of it. It knows nothing of scheduling.
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
	// A request that failed is sent again after a pause that doubles from the first to the second value, with jitter.
	firstPause  = 50 * time.Millisecond
	lastPause   = time.Second
	pauseJitter = 0.5
	// longestRetryAfter bounds what a Retry-After of the API server is followed for, and startingRetryAfter one that starts: it
	// says five seconds, and is ready after a fraction of one.
	longestRetryAfter  = 30 * time.Second
	startingRetryAfter = time.Second
	// starting is how long an API server that is back may refuse what it allowed before, since it does not know its roles yet.
	starting = 5 * time.Second
	// ownTrouble is how long a path may fail while others are answered before that is no outage of the API server.
	ownTrouble = 30 * time.Second
	// staleWatch is how long a watch is tried for. The API server that comes back after longer than that would call the
	// version stale at which it is to begin, and the informer would list.
	staleWatch = 2 * time.Second
	// briefWatch is what an informer calls too brief for a watch, and a failure: one second and a bit.
	briefWatch = 1100 * time.Millisecond
	// snippet limits how much of an answer is logged.
	snippet = 200
)

// An Outage keeps informers from falling asleep while the API server is away. An informer that fails pauses for up to a
// minute, which no option of client-go shortens, and takes minutes to forget it; then each of them comes back at its own
// time, and the process sees parts of the cluster. So their requests do not fail: a list waits, inside the request, until
// the API server answers it or the informers end, and a watch that breaks just ends, after which the informer begins
// another.
//
// Each asks again and again, with pauses. The first that is answered ends the pauses of all.
//
// A watch that cannot be begun for some time is told that its version is stale, as it would be in the end: the one pause
// that an informer makes then passes while the API server is still away.
//
// A kind that fails for long while others are answered, because its conversion webhook is away say, is asked for again like the
// others, but does not count: it would hide the end of every outage.
//
// It also knows what the API server does not let informers list, for those who wait for their caches to fill.
type Outage struct {
	// life ends all waiting.
	life context.Context

	mu      sync.Mutex
	failing map[string]failure
	// began is when the API server last went away, and back when it first answered a failing request again; zero if it has not
	// since the last new failure.
	began, back time.Time
	// over is called at the end of an outage that was long enough for gangs to fail repeatedly.
	over func()
	// answer is closed, and another one takes its place, when a path is answered that was not.
	answer chan struct{}
}

// failure is what requests for a collection fail of.
type failure struct {
	since  time.Time
	reason string
	// passing reports whether the API server was unreachable or could not answer, rather than refused.
	passing bool
	// alone is when another path was answered first while this one failed, zero when none was; own says that this is long ago.
	alone time.Time
	own   bool
}

// New returns an outage whose waits end with life.
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

// Wrap makes informers with the config wait out outages. Other requests are sent unchanged: gets and writes fail at once, and their
// callers decide. Only a Retry-After of a starting API server is made shorter for them.
func (o *Outage) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &patientTransport{next, o} })
	return config
}

// Refused names the collections that cannot be listed and says why, sorted and joined; it is empty when all can.
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

// failed records a failure, and logs the first one of an outage. A refusal is an answer too: it may end an outage.
func (o *Outage) failed(path, reason string, passing bool) {
	o.note(path, &failure{since: time.Now(), reason: reason, passing: passing})
}

// succeeded notes that the path is answered as it should be.
func (o *Outage) succeeded(path string) { o.note(path, nil) }

// gaveUp notes that a request for the path has ended unanswered: the outage is over without an answer to it, unless another
// one asks.
func (o *Outage) gaveUp(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.failing[path]; known {
		f.passing = false
		o.failing[path] = f
	}
}

// note records the failure of requests for the path, nil for success, and reports the end of an outage.
func (o *Outage) note(path string, f *failure) {
	if over := o.put(path, f); over != nil {
		over()
	}
}

// put records it, and returns the callback if that ends an outage that was long enough.
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
		klog.InfoS("The API server is away: informers wait for it", "request", path, "reason", f.reason)
		o.began = time.Now()
	case before && !away && o.back.IsZero():
		klog.InfoS("The API server is not away, this alone fails", "request", path, "reason", f.reason)
	case before && !away:
		lasted := time.Since(o.began)
		klog.InfoS("The API server is back, and has answered informers", "after", lasted.Round(time.Millisecond))
		if lasted >= staleWatch {
			return o.over
		}
	}
	return nil
}

// after is the failure as one that follows the former one of its path, zero when there was none.
func (f failure) after(former failure) failure {
	if !former.since.IsZero() {
		f.since = former.since
	}
	if f.passing && former.passing {
		f.alone = former.alone
		f.own = !f.alone.IsZero() && time.Since(f.alone) >= ownTrouble
	}
	return f
}

// answered notes that the path was answered, which had failed of that before. It is called with mu held.
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

// returned notes that the API server gives answers after an outage. It is called with mu held.
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

// nextAnswer is closed when a path is answered that was not.
func (o *Outage) nextAnswer() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer
}

// away reports whether requests fail because the API server does not answer, rather than for their own reasons. It is called with
// mu held.
func (o *Outage) away() bool {
	for _, f := range o.failing {
		if f.passing && !f.own {
			return true
		}
	}
	return false
}
