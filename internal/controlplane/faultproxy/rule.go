// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Request holds the data of an HTTP request that the proxy passes to Rule.Match.
type Request struct {
	Method string
	// Path is the URL's path, Query its raw query.
	Path, Query string
	// Body is the complete body of a write; empty for reads.
	Body []byte
}

// Rule defines which requests are broken, and how. A field with its zero value matches every request.
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

// Action breaks a request. Answer, DropBefore, DropAfter, Delay and Hold create actions. The zero value breaks nothing:
// such a rule only counts requests or notifies the test.
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

// DropBefore ends the client's request without a response and without calling the API server. With HTTP/2 it resets the
// request's stream, with HTTP/1.1 it closes the connection.
func DropBefore() Action { return Action{kind: dropBefore} }

// DropAfter forwards the request, waits for the API server's response, and then ends the client's request like
// DropBefore. So a write was applied, and the client does not know it.
func DropAfter() Action { return Action{kind: dropAfter} }

// Delay forwards the request after the duration d.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Hold keeps requests from the API server until ActiveRule.Release is called. If the proxy notices before Release that
// the client has given up a request, the request never reaches the API server (see Abandoned).
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

// Abandoned returns a channel that is closed when the proxy first notices that a client has given up a request which
// the rule holds or delays. The proxy may notice this some time after the client gave up.
func (r *ActiveRule) Abandoned() <-chan struct{} { return r.abandoned }

// Release forwards the requests that the rule holds, and deactivates the rule: it does not apply to later requests.
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

// Remove deactivates the rule and forwards the requests that it holds. It does the same as Release; its name suits
// actions other than Hold.
func (r *ActiveRule) Remove() { r.Release() }

// Hits returns the number of requests to which the rule was applied.
func (r *ActiveRule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// applies reports whether the rule applies to a request, and counts the request as a hit if it does. chance returns a
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
	// A rule that reaches its limit still holds the requests to which it was applied. It no longer applies to new
	// requests.
	if r.rule.Limit > 0 && r.hits >= r.rule.Limit {
		r.over = true
	}
	return true
}

// wait waits until the channel ch delivers a value or is closed. If the client gives up the request first, wait marks
// the rule as abandoned and panics with http.ErrAbortHandler, which ends the request.
func wait[T any](ctx context.Context, r *ActiveRule, ch <-chan T) {
	select {
	case <-ch:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // checked again: select may have chosen ch although ctx had ended too
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
