// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Request is the part of a request that Rule.Match gets.
type Request struct {
	Method string
	// Path is the URL's path, Query its raw query.
	Path, Query string
	// Body is the complete body of a write; empty for reads.
	Body []byte
}

// Rule defines which requests are broken, and how. Zero fields match everything.
type Rule struct {
	// Name describes the rule in messages.
	Name string
	// Method is an HTTP method. Path is a regular expression that must match a part of the URL's path.
	Method string
	Path   string
	// Match, if set, must also return true for a request. It must be safe for concurrent use.
	Match func(Request) bool
	// Probability is the share of matching requests to which the rule applies, in (0, 1]; zero means 1. A random number
	// from the seeded source of the proxy decides for each request.
	Probability float64
	// Skip is the number of matching requests that are forwarded before the rule applies. Limit is the number of requests
	// to which the rule applies before it ends; zero for no limit.
	Skip, Limit int
	Action      Action
}

// Action breaks a request. Answer, DropBefore, DropAfter, Delay and Hold create actions. The zero value breaks nothing,
// so that a rule can only count or notify.
type Action struct {
	kind       actionKind
	code       int
	retryAfter time.Duration
	delay      time.Duration
}

type actionKind int

const (
	pass actionKind = iota
	answer
	dropBefore
	dropAfter
	delay
	hold
)

// Answer responds with the HTTP status as an API status object, without calling the server. A positive retryAfter is
// sent as Retry-After, rounded up to whole seconds.
func Answer(code int, retryAfter time.Duration) Action {
	return Action{kind: answer, code: code, retryAfter: retryAfter}
}

// DropBefore ends the exchange without a response and without calling the server. With HTTP/2 it resets the request's
// stream, with HTTP/1.1 it closes the connection.
func DropBefore() Action { return Action{kind: dropBefore} }

// DropAfter forwards the request, waits for the response of the API server, and then ends the exchange like DropBefore. So
// a write was applied, and the client cannot know that.
func DropAfter() Action { return Action{kind: dropAfter} }

// Delay forwards the request after the duration d.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Hold keeps requests from the API server until the rule's Release is called. If the client gives up a held request, and
// the proxy notices that before Release, the request never reaches the API server (see Abandoned).
func Hold() Action { return Action{kind: hold} }

// ActiveRule is a rule that was added to a proxy. Its methods are safe for concurrent use.
type ActiveRule struct {
	rule Rule
	path *regexp.Regexp

	mu        sync.Mutex
	seen      int
	hits      int
	over      bool
	reached   chan struct{}
	released  chan struct{}
	abandoned chan struct{}
}

func newActiveRule(r Rule) *ActiveRule {
	return &ActiveRule{
		rule:      r,
		path:      regexp.MustCompile(r.Path),
		reached:   make(chan struct{}),
		released:  make(chan struct{}),
		abandoned: make(chan struct{}),
	}
}

// Reached returns a channel that is closed when the rule is first applied to a request.
func (r *ActiveRule) Reached() <-chan struct{} { return r.reached }

// Abandoned returns a channel that is closed when the proxy first notices that a client has given up a request which the
// rule holds or delays. That is later than the moment when the client gave up.
func (r *ActiveRule) Abandoned() <-chan struct{} { return r.abandoned }

// Release forwards the requests held by the rule, and ends the rule: later requests pass.
func (r *ActiveRule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	select {
	case <-r.released:
	default:
		close(r.released)
	}
}

// Remove deactivates the rule and forwards the requests that it holds. It is the same as Release, with a name that suits
// other actions than Hold.
func (r *ActiveRule) Remove() { r.Release() }

// Hits returns the number of requests to which the rule was applied.
func (r *ActiveRule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// applies reports whether the rule applies to a request. If it does, it counts the request as a hit. chance returns a
// random number in [0, 1) and is called at most once.
func (r *ActiveRule) applies(req Request, chance func() float64) bool {
	if r.rule.Method != "" && r.rule.Method != req.Method || !r.path.MatchString(req.Path) {
		return false
	}
	if r.rule.Match != nil && !r.rule.Match(req) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.seen++
	if r.seen <= r.rule.Skip {
		return false
	}
	if p := r.rule.Probability; p > 0 && p < 1 && chance() >= p {
		return false
	}
	r.hits++
	if r.hits == 1 {
		close(r.reached)
	}
	// A rule that has reached its limit still holds requests that it was applied to. Only new requests pass.
	if r.rule.Limit > 0 && r.hits >= r.rule.Limit {
		r.over = true
	}
	return true
}

// wait waits until the channel is ready. If the client gives up the request first, it aborts the exchange.
func wait[T any](ctx context.Context, r *ActiveRule, ch <-chan T) {
	select {
	case <-ch:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // checked again, because both may have been ready
		r.abandon()
		panic(http.ErrAbortHandler)
	}
}

func (r *ActiveRule) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.abandoned:
	default:
		close(r.abandoned)
	}
}

// isWrite reports whether requests with the HTTP method are writes. The proxy reads the body of a write for Rule.Match.
func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}
