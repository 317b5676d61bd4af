// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// handlers are the handlers that the cache has added to informers.
type handlers struct {
	mu sync.Mutex
	// watched are the informers that have a handler of the cache, added by feed or addOnce.
	watched map[toolscache.SharedIndexInformer]bool
	// handed has one function for each handler whose initial list must be processed before the first session. The
	// function reports whether the handler has processed the list.
	handed []toolscache.InformerSynced
}

func newHandlers() *handlers { return &handlers{watched: map[toolscache.SharedIndexInformer]bool{}} }

// feed adds a handler to the informer. The first session waits until this handler has processed the initial list.
func (h *handlers) feed(informer toolscache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) {
	h.mark(informer)
	h.need(handle(informer, added, updated, deleted))
}

// table adds a handler that calls show for each new or changed object, and hide for each deleted object. As with feed,
// the first session waits until this handler has processed the initial list.
func (h *handlers) table(informer toolscache.SharedIndexInformer, show, hide func(any)) {
	h.need(handle(informer, show, func(_, after any) { show(after) }, hide))
}

// addOnce adds a handler unless the informer already has one.
func (h *handlers) addOnce(informer toolscache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) {
	if h.mark(informer) {
		handle(informer, added, updated, deleted)
	}
}

// mark records that the informer has a handler of the cache, and reports whether this handler is the first.
func (h *handlers) mark(informer toolscache.SharedIndexInformer) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.watched[informer]
	h.watched[informer] = true
	return first
}

func (h *handlers) need(handler toolscache.ResourceEventHandlerRegistration) {
	if handler == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handed = append(h.handed, handler.HasSynced)
}

// allHanded reports whether all handlers that the first session waits for have processed their initial lists.
func (h *handlers) allHanded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, synced := range h.handed {
		if !synced() {
			return false
		}
	}
	return true
}

// handle adds a handler to the informer. It returns nil if the informer was stopped.
func handle(informer toolscache.SharedIndexInformer, added func(any), updated func(any, any), deleted func(any)) toolscache.ResourceEventHandlerRegistration {
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: added, UpdateFunc: updated,
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			deleted(obj)
		},
	})
	if err != nil {
		logger().Error(err, "Adding event handlers failed")
		return nil
	}
	return handler
}
