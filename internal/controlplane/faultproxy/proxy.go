// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options configure a proxy.
type Options struct {
	// Upstream is the configuration of a client of the API server. Its host and TLS trust are used, its credentials are
	// not.
	Upstream *rest.Config
	// Certificate is the serving certificate.
	Certificate tls.Certificate
	// Address is the address to listen on; by default a free loopback port.
	Address string
	// Seed is the seed of the random choices for Probability.
	Seed uint64
	// HTTP1 serves HTTP/1.1 only. Dropping a request then closes the connection instead of resetting a stream.
	HTTP1 bool
}

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	url     string
	server  *http.Server
	reverse *httputil.ReverseProxy
	counter *counter
	served  chan struct{}

	mu     sync.Mutex
	rules  []*ActiveRule
	random *rand.Rand
}

// Start starts a proxy.
func Start(opts Options) (*Proxy, error) {
	target, err := url.Parse(opts.Upstream.Host)
	if err != nil {
		return nil, fmt.Errorf("the API server's URL: %w", err)
	}
	// The API server limits the requests on one connection. The transport has no limit of connections, so it opens as
	// many as it needs.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(opts.Upstream))
	if err != nil {
		return nil, err
	}
	address := opts.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		url:     "https://" + listener.Addr().String(),
		counter: newCounter(),
		served:  make(chan struct{}),
		random:  rand.New(rand.NewPCG(opts.Seed, opts.Seed)),
	}
	p.reverse = newReverse(target, transport)
	p.server = &http.Server{
		Handler:           p,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{opts.Certificate}, MinVersion: tls.VersionTLS12},
	}
	if opts.HTTP1 {
		p.server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	go func() {
		defer close(p.served)
		// The error is ignored. ServeTLS returns when the server is closed, or after an error that the client also
		// notices.
		_ = p.server.ServeTLS(listener, "", "")
	}()
	return p, nil
}

// newReverse returns a proxy that forwards requests and streams responses. If the API server cannot be reached, the
// proxy ends the client's request without a response.
func newReverse(target *url.URL, transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// URL returns the proxy's address for clients.
func (p *Proxy) URL() string { return p.url }

// Add activates a rule. If several rules apply to a request, the proxy uses the rule that was added first. Add panics
// if the rule's Path is not a valid regular expression.
func (p *Proxy) Add(r Rule) *ActiveRule {
	active := newActiveRule(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, active)
	return active
}

// Clear deactivates all rules.
func (p *Proxy) Clear() {
	p.mu.Lock()
	rules := p.rules
	p.rules = nil
	p.mu.Unlock()
	for _, r := range rules {
		r.Remove()
	}
}

// Close ends the proxy and every connection through it. It may be called several times.
func (p *Proxy) Close() error {
	p.Clear()
	err := p.server.Close()
	<-p.served
	return err
}

// ServeHTTP applies a rule to the request, or forwards the request if no rule applies.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.counter.add(r)
	seen := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery}
	if isWrite(r.Method) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		seen.Body = body
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	rule := p.pick(seen)
	if rule == nil {
		p.reverse.ServeHTTP(w, r)
		return
	}
	p.apply(w, r, rule)
}

// pick returns the rule that the proxy applies to the request; nil if no rule applies.
func (p *Proxy) pick(req Request) *ActiveRule {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	for _, rule := range rules {
		if rule.applies(req, p.chance) {
			return rule
		}
	}
	return nil
}

func (p *Proxy) chance() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.Float64()
}

func (p *Proxy) apply(w http.ResponseWriter, r *http.Request, rule *ActiveRule) {
	action := rule.rule.Action
	switch action.kind {
	case pass:
	case answer:
		writeStatus(w, action)
		return
	case dropBefore:
		panic(http.ErrAbortHandler)
	case dropAfter:
		p.forwardAndDrop(r)
	case delay:
		timer := time.NewTimer(action.delay)
		defer timer.Stop()
		wait(r.Context(), rule, timer.C)
	case hold:
		wait(r.Context(), rule, rule.released)
	}
	p.reverse.ServeHTTP(w, r)
}

// forwardAndDrop forwards the request and waits for the API server's complete response, even if the client gives up.
// Then it ends the client's request without a response.
func (p *Proxy) forwardAndDrop(r *http.Request) {
	request := r.WithContext(context.WithoutCancel(r.Context()))
	p.reverse.ServeHTTP(&blackHole{header: http.Header{}}, request)
	panic(http.ErrAbortHandler)
}
