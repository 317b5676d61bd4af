// SPDX-License-Identifier: Apache-2.0

package statuswriter

import "sync"

// perNamespace is the maximum number of concurrent writes to objects of one namespace. A namespace whose writes hang, for
// example in its admission webhook, so leaves workers to all others.
const perNamespace = workers / 2

// fairness limits the concurrent writes of each namespace, and holds the objects whose turn must wait for this limit.
// Queues, which are in no namespace, have no limit.
type fairness struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceWrites
}

// namespaceWrites are the writes of one namespace: how many run, and the objects that wait, in order.
type namespaceWrites struct {
	running int
	waiting []objectKey
	waits   map[objectKey]bool
}

func newFairness() *fairness { return &fairness{namespaces: map[string]*namespaceWrites{}} }

// begin reports whether the object may be written now. If not, it waits until the method end returns it.
func (f *fairness) begin(key objectKey) bool {
	if key.namespace == "" {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.namespaces[key.namespace]
	if of == nil {
		of = &namespaceWrites{waits: map[objectKey]bool{}}
		f.namespaces[key.namespace] = of
	}
	if of.running < perNamespace {
		of.running++
		return true
	}
	if !of.waits[key] {
		of.waits[key] = true
		of.waiting = append(of.waiting, key)
	}
	return false
}

// end records that a write has ended for which begin returned true. It returns the next waiting object of the namespace,
// if there is one, for the caller to put it into the queue again.
func (f *fairness) end(key objectKey) (next objectKey, ok bool) {
	if key.namespace == "" {
		return objectKey{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.namespaces[key.namespace]
	of.running--
	if len(of.waiting) > 0 {
		next, ok = of.waiting[0], true
		of.waiting = of.waiting[1:]
		delete(of.waits, next)
	} else if of.running == 0 {
		delete(f.namespaces, key.namespace)
	}
	return next, ok
}
