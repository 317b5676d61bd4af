// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// AbsentFor is how long plugins keep their state of a gang while no session has the gang. A gang is absent from some
// sessions, for example during the search for an object that makes cycles panic.
const AbsentFor = time.Minute

// Kept is state that a plugin keeps from session to session and from configuration to configuration. The plugin's
// PluginSpec owns it. The zero value is ready for use, also by several goroutines.
//
// All state that matters to users belongs in it, such as waiting times and the problems that were reported. The fields of
// a plugin are lost at each reload. So they hold only settings, the open session, and caches: values that the next session
// computes again with the same result.
type Kept[S any] struct {
	mu        sync.Mutex
	built     bool
	handle    Handle
	state     S
	informers []cache.SharedIndexInformer
}

// Of returns the state for the scheduler with this handle. If no state exists yet, Of calls build. build returns the
// state and the informers that the state is read from, and Of starts these informers. If Of fails, it keeps the state
// of the former handle.
func (k *Kept[S]) Of(h Handle, build func(Handle) (S, []cache.SharedIndexInformer, error)) (S, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.built && k.handle == h {
		return k.state, start(h, k.informers) // an earlier call may not have waited until the informers synced
	}
	state, informers, err := build(h)
	if err == nil {
		err = start(h, informers)
	}
	if err != nil {
		return *new(S), err
	}
	k.built, k.handle, k.state, k.informers = true, h, state, informers
	return state, nil
}

func start(h Handle, informers []cache.SharedIndexInformer) error {
	if len(informers) == 0 {
		return nil
	}
	return h.StartInformers(informers...)
}
