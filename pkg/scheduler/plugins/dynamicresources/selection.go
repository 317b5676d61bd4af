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

// choice is one alternative of a request, or the request itself if it has no alternatives. It has the number of requested devices,
// their class, and the selectors that the devices must match.
type choice struct {
	class     *resourceapi.DeviceClass
	selectors []resourceapi.DeviceSelector
	count     int64
	all       bool
	admin     bool
}

// choicesOf returns the alternatives of the request, the preferred alternative first. Most requests have only one.
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

// selectionKey is a hash of the class and the selectors of a choice (a request or one of its alternatives). The hash is short:
// each slice stores such keys, and a tenant may write some 300 kB of selectors into a request.
type selectionKey [sha256.Size]byte

// key returns a hash of the class and the selectors of the choice. A byte that no class or selector contains separates the hashed
// parts.
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

// selections caches which devices of a slice suit a choice (a request or one of its alternatives), for at most mostSelections
// choices.
type selections struct {
	mu   sync.Mutex
	kept map[selectionKey][]bool
}

// mostSelections is the maximum number of choices for which a slice caches its suitable devices. It is also the maximum number of
// sets of claims for which a part, a set of slices, caches its suitable slices.
const mostSelections = 128

// suiting reports for each device of the slice whether the selectors of the choice and of its device class accept the device. If
// a selector cannot be evaluated, a device counts as accepted: the allocator then reports the error.
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
	if ctx.Err() != nil { // the evaluation of the last selector was interrupted, so its result may be wrong
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
