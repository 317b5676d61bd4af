// SPDX-License-Identifier: Apache-2.0

package ledger

import "sync"

// callsPerNamespace is how many pods of one namespace are evicted at once. Calls can hang until their timeout, for example behind
// an admission webhook of a tenant, and must then delay only their own namespace.
const callsPerNamespace = 32

// calls runs functions on other goroutines, at most callsPerNamespace at once for each namespace, in the order of the calls of
// run. The zero value is ready to use.
type calls struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceCalls
}

// namespaceCalls are the functions that wait, and the number of goroutines that run functions.
type namespaceCalls struct {
	waiting []func()
	running int
}

func (c *calls) run(namespace string, call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.namespaces[namespace]
	if of == nil {
		of = &namespaceCalls{}
		if c.namespaces == nil {
			c.namespaces = map[string]*namespaceCalls{}
		}
		c.namespaces[namespace] = of
	}
	of.waiting = append(of.waiting, call)
	if of.running < callsPerNamespace {
		of.running++
		go c.work(namespace, of)
	}
}

// work runs waiting functions until there are none.
func (c *calls) work(namespace string, of *namespaceCalls) {
	for {
		c.mu.Lock()
		if len(of.waiting) == 0 {
			if of.running--; of.running == 0 {
				delete(c.namespaces, namespace)
			}
			c.mu.Unlock()
			return
		}
		call := of.waiting[0]
		of.waiting = of.waiting[1:]
		c.mu.Unlock()
		call()
	}
}
