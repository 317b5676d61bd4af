// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// runningInformers are those that run, once the cache is started.
type runningInformers struct {
	mu sync.Mutex
	// until closes when informers end; nil before they are started.
	until <-chan struct{}
	known map[toolscache.SharedIndexInformer]bool
}

// noteInformers notes what upstream's cache is about to start: its own informers, and those that plugins have asked for since it was
// made.
func (c *Cache) noteInformers(lifetime context.Context) error {
	all, err := informersOf(c.SchedulerCache, c.vcFactory)
	if err != nil {
		return err
	}
	if err := relistSoon(all...); err != nil {
		return fmt.Errorf("making informers return soon: %w", err)
	}
	r := &c.informers
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.known = lifetime.Done(), map[toolscache.SharedIndexInformer]bool{}
	for _, informer := range all {
		r.known[informer] = true
	}
	return nil
}

// StartInformers has those of the informers run that do not, if the cache was started already. Otherwise they run once it is. What
// they tell of storage wakes the loop from here on.
func (c *Cache) StartInformers(informers ...toolscache.SharedIndexInformer) error {
	r := &c.informers
	r.mu.Lock()
	defer r.mu.Unlock()
	c.changes.watchStorage(informers...)
	if r.until == nil {
		return nil
	}
	for _, informer := range informers {
		if r.known[informer] {
			continue
		}
		if err := relistSoon(informer); err != nil {
			return fmt.Errorf("making an informer return soon: %w", err)
		}
		r.known[informer] = true
		go informer.Run(r.until)
	}
	return nil
}
