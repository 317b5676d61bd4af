// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// choice is a set of criteria for one device: a request, or one of its alternatives.
type choice struct {
	class     *resourceapi.DeviceClass
	selectors []resourceapi.DeviceSelector
	count     int64
	all       bool
	admin     bool
}

// choicesOf returns the alternatives of a request, the best first; most requests have one.
func choicesOf(request *resourceapi.DeviceRequest, classes classLister) ([]choice, error) {
	if exactly := request.Exactly; exactly != nil {
		class, err := classes.Get(exactly.DeviceClassName)
		return []choice{{class, exactly.Selectors, exactly.Count, exactly.AllocationMode == resourceapi.DeviceAllocationModeAll,
			exactly.AdminAccess != nil && *exactly.AdminAccess}}, err
	}
	choices := make([]choice, 0, len(request.FirstAvailable))
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		class, err := classes.Get(sub.DeviceClassName)
		if err != nil {
			return nil, err
		}
		choices = append(choices, choice{class, sub.Selectors, sub.Count, sub.AllocationMode == resourceapi.DeviceAllocationModeAll, false})
	}
	return choices, nil
}

// selectionKey is a hash that identifies choices which the same devices suit. It is short, because a tenant may write
// some 300 kB of selectors into a request, and each slice keeps keys.
type selectionKey [sha256.Size]byte

// key returns the choice's key. Each hashed part ends with a byte that it cannot contain.
func (c *choice) key() selectionKey {
	parts := []string{string(c.class.UID), c.class.ResourceVersion, c.class.Name}
	for _, selectors := range [][]resourceapi.DeviceSelector{c.class.Spec.Selectors, c.selectors} {
		for i := range selectors {
			if selectors[i].CEL != nil {
				parts = append(parts, selectors[i].CEL.Expression)
			}
		}
		parts = append(parts, "")
	}
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// selections caches which devices of a slice suit which choices. Its size is bounded.
type selections struct {
	mu   sync.Mutex
	kept map[selectionKey][]bool
}

// mostSelections is the number of choices that a slice caches.
const mostSelections = 128

// suiting returns the slice's devices that the selectors of the choice and of its class accept. A device counts as
// accepted if they cannot be evaluated for it: the allocator then reports the error.
func (s *slice) suiting(ctx context.Context, compiled *cel.Cache, c *choice, key selectionKey) ([]bool, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	known, ok := s.kept[key]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	suits := make([]bool, len(s.Spec.Devices))
	for i := range s.Spec.Devices {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		suits[i] = s.accepted(ctx, compiled, i, c.class.Spec.Selectors) && s.accepted(ctx, compiled, i, c.selectors)
	}
	if ctx.Err() != nil { // the last selector was interrupted
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= mostSelections {
		s.kept = map[selectionKey][]bool{}
	}
	s.kept[key] = suits
	return suits, nil
}

func (s *slice) accepted(ctx context.Context, compiled *cel.Cache, device int, selectors []resourceapi.DeviceSelector) bool {
	for i := range selectors {
		if selectors[i].CEL == nil {
			return true
		}
		expression := compiled.GetOrCompile(selectors[i].CEL.Expression)
		if expression.Error != nil {
			return true
		}
		d := &s.Spec.Devices[device]
		matches, _, err := expression.DeviceMatches(ctx, cel.Device{
			Driver: s.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil {
			return true
		}
		if !matches {
			return false
		}
	}
	return true
}
