// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
)

// selectorCache has the CEL selectors of devices compiled, and keeps those that were used last.
//
// To compile one of the 10 kB that the API server takes lasts a third of a second and heeds no context, and claims may have hundreds. So
// it is done beside the search, one selector at a time, and waited for as long as the search may take. What is late is there for the
// next one.
type selectorCache struct {
	*cel.Cache
	compile func(expression string)
	// turn is held by whoever has a selector compiled.
	turn chan struct{}

	mu sync.Mutex
	// known are selectors that are kept: no more than the last half of what there is room for.
	known map[string]bool
}

// mostCompiled are so many selectors of which the compiled form is kept. One takes 50 kB, and one of 10 kB some 400 kB.
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

// compileOne gives the turn back when it ends, with the selector compiled or refused.
func (c *selectorCache) compileOne(expression string, done chan<- struct{}) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "Compiling a selector panicked", "panic", p)
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
