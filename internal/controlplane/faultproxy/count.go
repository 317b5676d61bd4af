// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"maps"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Count is the verb and resource of requests. The proxy counts requests by this key.
type Count struct {
	// Verb is the Kubernetes verb (get, list, watch, create, update, patch, delete, deletecollection), or the HTTP
	// method in lower case for other requests.
	Verb string
	// Resource is the resource, with the subresource after a slash: "pods", "pods/binding", "podgroups/status". For
	// other requests it is the path.
	Resource string
}

var writeVerbs = sets.New("create", "update", "patch", "delete", "deletecollection")

// counter counts requests by verb and resource.
type counter struct {
	resolver request.RequestInfoResolver

	mu     sync.Mutex
	counts map[Count]int
}

func newCounter() *counter {
	return &counter{
		resolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		counts:   map[Count]int{},
	}
}

func (c *counter) add(r *http.Request) {
	info, err := c.resolver.NewRequestInfo(r)
	if err != nil {
		return
	}
	kind := Count{Verb: info.Verb, Resource: info.Path}
	if info.IsResourceRequest {
		kind.Resource = info.Resource
		if info.Subresource != "" {
			kind.Resource += "/" + info.Subresource
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[kind]++
}

// Counts returns the number of requests by verb and resource, including requests that a rule broke.
func (p *Proxy) Counts() map[Count]int {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return maps.Clone(p.counter.counts)
}

// Writes returns the number of write requests by resource, including requests that a rule broke.
func (p *Proxy) Writes() map[string]int {
	writes := map[string]int{}
	for kind, n := range p.Counts() {
		if writeVerbs.Has(kind.Verb) {
			writes[kind.Resource] += n
		}
	}
	return writes
}

// ResetCounts sets all counts to zero.
func (p *Proxy) ResetCounts() {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	clear(p.counter.counts)
}
