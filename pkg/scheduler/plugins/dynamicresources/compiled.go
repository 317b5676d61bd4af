// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// selectorCache compiles the CEL selectors of devices, and caches the most recently used selectors.
//
// The API server accepts selectors of 10 kB. Compiling such a selector takes a third of a second and cannot be cancelled, and a
// claim may have hundreds of selectors. So a separate goroutine compiles the selectors, one at a time. A search waits for a
// selector only until the search's time limit. If the selector is compiled later, the next search finds it in the cache.
type selectorCache struct {
	*cel.Cache
	compile func(expression string)
	// turn has an element while a selector is being compiled, so that only one selector is compiled at a time.
	turn chan struct{}

	mu sync.Mutex
	// known are the expressions that were compiled. known has at most half as many entries as the cache, so that the cache still
	// has each expression in known.
	known map[string]bool
}

// mostCompiled is the maximum number of compiled selectors in the cache. A usual compiled selector takes 50 kB of memory. A
// selector with a text of 10 kB takes some 400 kB.
const mostCompiled = 256

func newSelectorCache(features cel.Features) *selectorCache {
	c := &selectorCache{Cache: cel.NewCache(mostCompiled, features), turn: make(chan struct{}, 1), known: map[string]bool{}}
	c.compile = func(expression string) { c.GetOrCompile(expression) }
	return c
}

// compileAll compiles all selectors of the needs. It returns an error if the context ends before all selectors are compiled.
func (c *selectorCache) compileAll(ctx context.Context, needs []need) error {
	for i := range needs {
		for k := range needs[i].choices {
			if err := c.ready(ctx, needs[i].choices[k].selectors); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *selectorCache) ready(ctx context.Context, selectors []resourceapi.DeviceSelector) error {
	for i := range selectors {
		if selectors[i].CEL == nil || c.isKnown(selectors[i].CEL.Expression) {
			continue
		}
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		done := make(chan struct{})
		go c.compileOne(selectors[i].CEL.Expression, done)
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// compileOne compiles the expression, and caches the error of an invalid expression. At its end, also after a panic, it closes
// done and takes the element out of the channel turn. The next selector can then be compiled.
func (c *selectorCache) compileOne(expression string, done chan<- struct{}) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "Compiling a CEL selector panicked", "selector", brief.Value(expression), "panic", p)
		}
		<-c.turn
		close(done)
	}()
	c.compile(expression)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostCompiled/2 {
		c.known = map[string]bool{}
	}
	c.known[expression] = true
}

func (c *selectorCache) isKnown(expression string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[expression]
}
