// Package faultproxy is a reverse TLS proxy that stands between a client and the API server and breaks
// requests on purpose: it answers errors, drops connections before or after the server took the request, delays
// it, or holds it at a gate that a test opens. It passes bearer tokens on and streams watches.
package faultproxy

import (
	"crypto/tls"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
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

// Action breaks a request. Make one with Answer, DropBefore, DropAfter, Delay or Hold.
type Action struct{ kind int }

// Answer answers with the HTTP status as an API status object, without asking the server. A retryAfter above
// zero is sent in whole seconds as Retry-After.
func Answer(code int, retryAfter time.Duration) Action { return Action{} }

// DropBefore closes the connection without asking the server.
func DropBefore() Action { return Action{} }

// DropAfter passes the request on, waits for the server's answer and closes the connection without it: the write
// took place and the client cannot know.
func DropAfter() Action { return Action{} }

// Delay passes the request on after d.
func Delay(d time.Duration) Action { return Action{} }

// Hold keeps requests from the server until the rule's Release; see ActiveRule.Reached.
func Hold() Action { return Action{} }

// ActiveRule is a rule in force.
type ActiveRule struct{}

// Reached is closed when the rule was first applied to a request.
func (r *ActiveRule) Reached() <-chan struct{} { return nil }

// Release lets requests held by the rule go on, and later ones pass.
func (r *ActiveRule) Release() {}

// Hits is how many requests the rule was applied to.
func (r *ActiveRule) Hits() int { return 0 }

// Remove takes the rule out of force, releasing what it holds.
func (r *ActiveRule) Remove() {}

// Options shape a proxy.
type Options struct {
	// Upstream is the API server; Host and TLS trust are used, credentials are not.
	Upstream *rest.Config
	// Certificate is served to clients.
	Certificate tls.Certificate
	// Seed seeds the choices of Probability.
	Seed int64
}

// Proxy is a running proxy.
type Proxy struct{}

// Start starts a proxy on a free loopback port.
func Start(opts Options) (*Proxy, error) { return nil, http.ErrNotSupported }

// URL is where clients reach the proxy.
func (p *Proxy) URL() string { return "" }

// Add puts a rule in force. The first rule, in the order added, that matches a request is applied, and no
// other. It panics when Path does not compile.
func (p *Proxy) Add(r Rule) *ActiveRule { return nil }

// Clear takes every rule out of force.
func (p *Proxy) Clear() {}

// Count is a kind of request.
type Count struct {
	// Verb is the Kubernetes verb (get, list, watch, create, update, patch, delete, deletecollection).
	Verb string
	// Resource is the resource, with the subresource behind a slash: "pods", "pods/binding", "podgroups/status".
	Resource string
}

// Counts returns how many requests of each kind came in, broken ones included.
func (p *Proxy) Counts() map[Count]int { return nil }

// Writes is the sum of Counts over verbs that write, by resource.
func (p *Proxy) Writes() map[string]int { return nil }

// ResetCounts starts counting from zero.
func (p *Proxy) ResetCounts() {}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error { return nil }
