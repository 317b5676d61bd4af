// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"net/http"
	"regexp"
	"sync"
	"time"
)

// Request is what a rule's predicate sees of a request.
type Request struct {
	Method string
	// Path is the URL's path, Query its raw query.
	Path, Query string
	// Body is the whole body of a write; empty for reads.
	Body []byte
}

// Rule says which requests to break, and how. Zero fields match everything.
type Rule struct {
	// Name is for people.
	Name string
	// Method is an HTTP method; Path a regular expression searched for in the URL's path.
	Method string
	Path   string
	// Match narrows the rule further; it must be safe for concurrent use.
	Match func(Request) bool
	// Probability applies the rule to that share of matching requests, in (0, 1]; zero means 1. The choice comes
	// from the proxy's seeded source.
	Probability float64
	// Skip lets the first matching requests pass; Limit ends the rule after it was applied so often, never when zero.
	Skip, Limit int
	Action      Action
}

// Action breaks a request. Make one with Answer, DropBefore, DropAfter, Delay or Hold; the zero value breaks
// nothing, so that a rule can count or watch.
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

// Answer answers with the HTTP status as an API status object, without asking the server. A retryAfter above
// zero is sent as Retry-After, rounded up to whole seconds.
func Answer(code int, retryAfter time.Duration) Action {
	return Action{kind: answer, code: code, retryAfter: retryAfter}
}

// DropBefore ends the exchange without an answer and without asking the server. Over HTTP/2 the request's stream is
// reset, over HTTP/1.1 its connection is closed.
func DropBefore() Action { return Action{kind: dropBefore} }

// DropAfter passes the request on, waits for the server's answer and ends the exchange as DropBefore does: the write
// took place and the client cannot know.
func DropAfter() Action { return Action{kind: dropAfter} }

// Delay passes the request on after d.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Hold keeps requests from the server until the rule's Release. A request whose client gives up meanwhile never
// reaches the server.
func Hold() Action { return Action{kind: hold} }

// ActiveRule is a rule in force. Its methods are safe for concurrent use.
type ActiveRule struct {
	rule Rule
	path *regexp.Regexp

	mu       sync.Mutex
	seen     int
	hits     int
	over     bool
	reached  chan struct{}
	released chan struct{}
}

func newActiveRule(r Rule) *ActiveRule {
	return &ActiveRule{
		rule:     r,
		path:     regexp.MustCompile(r.Path),
		reached:  make(chan struct{}),
		released: make(chan struct{}),
	}
}

// Reached is closed when the rule is first applied to a request.
func (r *ActiveRule) Reached() <-chan struct{} { return r.reached }

// Release lets requests held by the rule go on, and ends the rule: later ones pass.
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

// Remove takes the rule out of force, letting go what it holds. It is Release by the name that suits other actions.
func (r *ActiveRule) Remove() { r.Release() }

// Hits is how many requests the rule was applied to.
func (r *ActiveRule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// applies decides on one request and counts it. chance is called at most once and returns a number in [0, 1).
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
	// A gate at its limit still holds what it took; only new requests pass.
	if r.rule.Limit > 0 && r.hits >= r.rule.Limit {
		r.over = true
	}
	return true
}

// isWrite tells requests whose body a rule may look at.
func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}
