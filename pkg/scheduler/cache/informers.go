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

// pluginInformers are the informers that plugins use and that the factories of the cache did not create.
type pluginInformers struct {
	mu sync.Mutex
	// until is closed when the informers must end; nil before they are started.
	until <-chan struct{}
	known map[toolscache.SharedIndexInformer]bool
	// asked are the informers that plugins requested before startAll. own are the informers that pluginInformers runs,
	// because the factories of the cache do not.
	asked []toolscache.SharedIndexInformer
	own   []*pluginInformer
}

// pluginInformer is an informer that the factories of the cache do not run. It becomes rejected when the API server
// answers that it does not serve the kind, or that the scheduler may not list it. A rejected informer still retries the
// list.
type pluginInformer struct {
	toolscache.SharedIndexInformer
	rejected atomic.Bool
	// givenUp reports whether a reload of the configuration stopped waiting for this informer because of a timeout.
	// Later reloads do not wait for this informer until a plugin requests it again.
	givenUp atomic.Bool
}

// startAll runs the informers that plugins have requested. It leaves out the known informers, which the factories of
// the cache run.
func (p *pluginInformers) startAll(until <-chan struct{}, known map[toolscache.SharedIndexInformer]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.known = until, known
	return p.run(p.asked)
}

// start runs the informers that do not run yet. If it is called before startAll, it only records the informers, and
// startAll runs them.
func (p *pluginInformers) start(informers []toolscache.SharedIndexInformer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.asked = append(p.asked, informers...)
		return nil
	}
	return p.run(informers)
}

// run runs the informers that do not run yet. The caller must hold the mutex.
func (p *pluginInformers) run(informers []toolscache.SharedIndexInformer) error {
	for _, informer := range informers {
		if p.known[informer] {
			p.awaitAgain(informer)
			continue
		}
		own := &pluginInformer{SharedIndexInformer: informer}
		if err := informer.SetWatchErrorHandlerWithContext(outage.Relist(own.isRejected)); err != nil {
			return fmt.Errorf("setting the watch error handler of an informer: %w", err)
		}
		p.known[informer] = true
		p.own = append(p.own, own)
		go informer.Run(p.until)
	}
	return nil
}

// awaitAgain makes await wait again for an informer for which an earlier await stopped waiting. The caller must hold
// the mutex.
func (p *pluginInformers) awaitAgain(informer toolscache.SharedIndexInformer) {
	for _, i := range p.own {
		if i.SharedIndexInformer == informer {
			i.givenUp.Store(false)
		}
	}
}

// isRejected reports whether the error says that the API server does not list the kind, and the informer has never
// synced. Such errors may repeat for a long time, so only the first is logged.
func (i *pluginInformer) isRejected(kind string, err error) bool {
	if i.HasSynced() || !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false
	}
	if i.rejected.CompareAndSwap(false, true) {
		logger().Info("Listing a resource that a plugin watches failed, retrying", "kind", kind, "reason", err.Error())
	}
	return true
}

// unlisted returns the informers of plugins that have not synced. It leaves out informers whose lists the API server
// rejects, and informers for which an earlier await stopped waiting.
func (p *pluginInformers) unlisted() (unlisted []*pluginInformer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.own {
		if !i.HasSynced() && !i.rejected.Load() && !i.givenUp.Load() {
			unlisted = append(unlisted, i)
		}
	}
	return unlisted
}

// await returns when the informers of plugins have synced. If ctx ends first, it returns an error. Later calls then do
// not wait for the informers that have not synced, unless a plugin requests them again.
func (p *pluginInformers) await(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return len(p.unlisted()) == 0, nil })
	if err != nil {
		for _, i := range p.unlisted() {
			i.givenUp.Store(true)
		}
		return fmt.Errorf("listing the objects that plugins watch: %w", err)
	}
	return nil
}
