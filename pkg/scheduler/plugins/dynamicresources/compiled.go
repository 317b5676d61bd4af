// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
)

// selectorCache compiles the CEL selectors of devices, and keeps the most recently used.
//
// The API server accepts selectors of 10 kB. Compiling one takes a third of a second and ignores the context, and
// claims may have hundreds of them. So selectors are compiled on a separate goroutine, one at a time, and the search
// waits only within its time limit. A selector that is compiled late is ready for the next search.
type selectorCache struct {
	*cel.Cache
	compile func(expression string)
	// turn is held while a selector is being compiled.
	turn chan struct{}

	mu sync.Mutex
	// known are the cached selectors. It records at most half of the cache's capacity.
	known map[string]bool
}

// mostCompiled is the number of selectors whose compiled form is kept. One takes 50 kB, and one of 10 kB some 400 kB.
const mostCompiled = 256

func newSelectorCache(features cel.Features) *selectorCache {
	c := &selectorCache{Cache: cel.NewCache(mostCompiled, features), turn: make(chan struct{}, 1), known: map[string]bool{}}
	c.compile = func(expression string) { c.GetOrCompile(expression) }
	return c
}

// compileAll returns when all selectors of the claims and of their classes are compiled, or the context ends.
func (c *catalog) compileAll(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			choices, err := choicesOf(&claim.Spec.Devices.Requests[i], c.classes)
			if err != nil {
				return err
			}
			for k := range choices {
				for _, selectors := range [][]resourceapi.DeviceSelector{choices[k].class.Spec.Selectors, choices[k].selectors} {
					if err := c.compiled.ready(ctx, selectors); err != nil {
						return err
					}
				}
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

// compileOne compiles the selector, or records that it is invalid, and then releases the turn.
func (c *selectorCache) compileOne(expression string, done chan<- struct{}) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "Compiling a CEL selector panicked", "panic", p)
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
