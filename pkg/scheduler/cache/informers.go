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

// pluginInformers are the informers that plugins watch and that the factories of the cache did not make.
type pluginInformers struct {
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

// startAll runs the informers that plugins have asked for, except those that are known: they run with the factories that made them.
func (p *pluginInformers) startAll(until <-chan struct{}, known map[toolscache.SharedIndexInformer]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.known = until, known
	return p.run(p.asked)
}

// start runs those of the informers that do not run, if startAll was called already. Otherwise they run once it is.
func (p *pluginInformers) start(informers []toolscache.SharedIndexInformer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.asked = append(p.asked, informers...)
		return nil
	}
	return p.run(informers)
}

// run has those run that do not. The mutex is held.
func (p *pluginInformers) run(informers []toolscache.SharedIndexInformer) error {
	for _, informer := range informers {
		if p.known[informer] {
			p.awaitAgain(informer)
			continue
		}
		own := &ownInformer{SharedIndexInformer: informer}
		if err := informer.SetWatchErrorHandlerWithContext(outage.Relist(own.isRefused)); err != nil {
			return fmt.Errorf("making an informer return soon: %w", err)
		}
		p.known[informer] = true
		p.own = append(p.own, own)
		go informer.Run(p.until)
	}
	return nil
}

// awaitAgain has the informer waited for although that was in vain before. The mutex is held.
func (p *pluginInformers) awaitAgain(informer toolscache.SharedIndexInformer) {
	for _, i := range p.own {
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
func (p *pluginInformers) unlisted() (unlisted []*ownInformer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.own {
		if !i.HasSynced() && !i.refused.Load() && !i.givenUp.Load() {
			unlisted = append(unlisted, i)
		}
	}
	return unlisted
}

// await returns when what plugins watch is read. If the context ends before, it returns an error, and informers that
// are not read by then are not waited for again, unless a plugin asks for them again.
func (p *pluginInformers) await(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return len(p.unlisted()) == 0, nil })
	if err != nil {
		for _, i := range p.unlisted() {
			i.givenUp.Store(true)
		}
		return fmt.Errorf("reading what plugins watch: %w", err)
	}
	return nil
}
