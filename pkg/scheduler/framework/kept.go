// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Kept is state that a plugin keeps from session to session and from configuration to configuration. The plugin's
// PluginSpec owns it. The zero value is ready for use, also by several goroutines.
type Kept[S any] struct {
	mu        sync.Mutex
	handle    Handle
	state     S
	informers []cache.SharedIndexInformer
}

// Of returns the state kept for the scheduler of the handle. If there is none yet, it calls build, which returns the
// state and the informers from which the state is read, and starts these informers. If it fails, the former state is
// kept.
func (k *Kept[S]) Of(h Handle, build func(Handle) (S, []cache.SharedIndexInformer, error)) (S, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == h {
		return k.state, h.StartInformers(k.informers...) // the reload that first requested them may not have waited until they were synced
	}
	state, informers, err := build(h)
	if err == nil {
		err = h.StartInformers(informers...)
	}
	if err != nil {
		return *new(S), err
	}
	k.handle, k.state, k.informers = h, state, informers
	return state, nil
}
