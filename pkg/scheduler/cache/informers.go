// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

// runningInformers are those that run, once the cache is started.
type runningInformers struct {
	mu sync.Mutex
	// until closes when informers end; nil before they are started.
	until <-chan struct{}
	known map[toolscache.SharedIndexInformer]bool
	// asked are those that plugins asked for before that, and own those that are run here and not by upstream.
	asked []toolscache.SharedIndexInformer
	own   []*ownInformer
}

// ownInformer is one that upstream does not run. It is refused once the API server has said that its kind is not served, or not to be
// listed; it lists again all the same.
type ownInformer struct {
	toolscache.SharedIndexInformer
	refused atomic.Bool
	// givenUp is true of one for which a reload waited in vain, until a plugin asks for it again: others do not need it.
	givenUp atomic.Bool
}

// runInformers runs those of other factories that plugins have asked for. What the factories of this cache made runs with them.
func (c *Cache) runInformers(lifetime context.Context) error {
	r := &c.informers
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.known = lifetime.Done(), c.sources.known.all()
	return r.run(r.asked)
}

// StartInformers has those of the informers run that do not, if the cache was started already. Otherwise they run once it is. What
// they tell of storage wakes the loop from here on.
func (c *Cache) StartInformers(informers ...toolscache.SharedIndexInformer) error {
	r := &c.informers
	r.mu.Lock()
	defer r.mu.Unlock()
	c.changes.watchStorage(informers...)
	if r.until == nil {
		r.asked = append(r.asked, informers...)
		return nil
	}
	return r.run(informers)
}

// run has those run that do not. The mutex is held.
func (r *runningInformers) run(informers []toolscache.SharedIndexInformer) error {
	for _, informer := range informers {
		if r.known[informer] {
			r.awaitAgain(informer)
			continue
		}
		own := &ownInformer{SharedIndexInformer: informer}
		if err := informer.SetWatchErrorHandlerWithContext(outage.Relist(own.isRefused)); err != nil {
			return fmt.Errorf("making an informer return soon: %w", err)
		}
		r.known[informer] = true
		r.own = append(r.own, own)
		go informer.Run(r.until)
	}
	return nil
}

// awaitAgain has the informer waited for although that was in vain before. The mutex is held.
func (r *runningInformers) awaitAgain(informer toolscache.SharedIndexInformer) {
	for _, i := range r.own {
		if i.SharedIndexInformer == informer {
			i.givenUp.Store(false)
		}
	}
}

// isRefused is true if the error says that the API server does not list the kind, and never has. That may last, and is told once.
func (i *ownInformer) isRefused(kind string, err error) bool {
	if i.HasSynced() || !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false
	}
	if i.refused.CompareAndSwap(false, true) {
		logger().Info("The API server does not list what a plugin watches; it is asked again from time to time", "kind", kind, "reason", err.Error())
	}
	return true
}

// unlisted are the informers that plugins asked for whose first list is to come.
func (r *runningInformers) unlisted() (unlisted []*ownInformer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.own {
		if !i.HasSynced() && !i.refused.Load() && !i.givenUp.Load() {
			unlisted = append(unlisted, i)
		}
	}
	return unlisted
}

// AwaitInformers waits for the first lists of the informers that plugins asked for, if they run. It does not wait for what the API server
// refuses to list: most pods need none of it, and the plugin tells those that do. What it waited for in vain it does not wait for again, unless
// a plugin asks for that once more.
func (c *Cache) AwaitInformers(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return len(c.informers.unlisted()) == 0, nil })
	if err != nil {
		for _, i := range c.informers.unlisted() {
			i.givenUp.Store(true)
		}
		return fmt.Errorf("reading what plugins watch: %w", err)
	}
	return nil
}
