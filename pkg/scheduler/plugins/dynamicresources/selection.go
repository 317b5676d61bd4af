// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// need is a request of a claim, with its alternatives. claim is the index of the claim, and request the index of the request in
// the claim.
type need struct {
	claim, request int
	// choices are the alternatives, the preferred alternative first. Most requests have only one.
	choices []choice
}

// choice is one alternative of a request, or the request itself if it has no alternatives.
type choice struct {
	resourceapi.DeviceSubRequest
	// selectors are the selectors of the device class and of the request. A device must match all of them.
	selectors []resourceapi.DeviceSelector
	key       selectionKey
}

// selectionKey is a hash of the class and the selectors of a choice. The hash is short: each slice stores such keys, and a tenant
// may write some 300 kB of selectors into a request.
type selectionKey [sha256.Size]byte

// needsOf returns the requests of the claims. An error means that a device class cannot be read.
func (c *catalog) needsOf(claims []*resourceapi.ResourceClaim) ([]need, error) {
	var needs []need
	for i, claim := range claims {
		for k := range claim.Spec.Devices.Requests {
			n := need{claim: i, request: k}
			for _, one := range alternatives(&claim.Spec.Devices.Requests[k]) {
				class, err := c.classes.Get(one.DeviceClassName)
				if err != nil {
					return nil, err
				}
				n.choices = append(n.choices, newChoice(one, class))
			}
			needs = append(needs, n)
		}
	}
	return needs, nil
}

// newChoice hashes the parts of the key with a byte between them that no class or selector contains.
func newChoice(of resourceapi.DeviceSubRequest, class *resourceapi.DeviceClass) choice {
	c := choice{DeviceSubRequest: of, selectors: slices.Concat(class.Spec.Selectors, of.Selectors)}
	parts := []string{string(class.UID), class.ResourceVersion, class.Name}
	for i := range c.selectors {
		if c.selectors[i].CEL != nil {
			parts = append(parts, c.selectors[i].CEL.Expression)
		}
	}
	c.key = sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return c
}

// selections caches which devices of a slice suit a choice, for at most mostSelections choices.
type selections struct {
	mu   sync.Mutex
	kept map[selectionKey][]bool
}

// mostSelections is the maximum number of choices for which a slice caches its suitable devices. It is also the maximum number of
// sets of claims for which a part, a set of slices, caches its suitable slices.
const mostSelections = 128

// suitingAny reports for each device of the slice whether it suits one of the choices. The caller must not change the result.
func (s *slice) suitingAny(ctx context.Context, compiled *cel.Cache, choices []choice) ([]bool, error) {
	var either []bool
	for i := range choices {
		suits, err := s.suiting(ctx, compiled, &choices[i])
		if err != nil {
			return nil, err
		}
		if i == 0 {
			either = suits
			continue
		}
		either = slices.Clone(either)
		for k := range either {
			either[k] = either[k] || suits[k]
		}
	}
	return either, nil
}

// suiting reports for each device of the slice whether the selectors of the choice accept the device. If a selector cannot be
// evaluated, a device counts as accepted: the allocator then reports the error.
func (s *slice) suiting(ctx context.Context, compiled *cel.Cache, c *choice) ([]bool, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	known, ok := s.kept[c.key]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	suits := make([]bool, len(s.Spec.Devices))
	for i := range suits {
		suits[i] = s.accepted(ctx, compiled, &s.Spec.Devices[i], c.selectors)
		if ctx.Err() != nil { // the evaluation was interrupted, so its result may be wrong
			return nil, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= mostSelections {
		s.kept = map[selectionKey][]bool{}
	}
	s.kept[c.key] = suits
	return suits, nil
}

func (s *slice) accepted(ctx context.Context, compiled *cel.Cache, device *resourceapi.Device, selectors []resourceapi.DeviceSelector) bool {
	of := cel.Device{
		Driver: s.Spec.Driver, AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity,
	}
	for i := range selectors {
		if selectors[i].CEL == nil {
			return true
		}
		expression := compiled.GetOrCompile(selectors[i].CEL.Expression)
		if expression.Error != nil {
			return true
		}
		if matches, _, err := expression.DeviceMatches(ctx, of); err != nil || !matches {
			return err != nil
		}
	}
	return true
}
