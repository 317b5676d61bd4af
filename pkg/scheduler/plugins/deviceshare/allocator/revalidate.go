// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Recheck returns why a pod with the request must not be bound with the allocation; nil if the pod may be bound. The
// state includes the allocation. Since the allocation was decided, its devices may have disappeared, changed, become
// unhealthy or overcommitted. They may also no longer satisfy the request's topology or selectors.
func (s *State) Recheck(r *Request, a *Allocation) error {
	if a.IsEmpty() {
		return nil
	}
	var errs []error
	for t := range a {
		for i := range a[t] {
			if err := s.recheckDevice(Type(t), &a[t][i]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) > maxErrors {
		errs = append(errs[:maxErrors], fmt.Errorf("and %d more", len(errs)-maxErrors))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.satisfies(r, a)
}

// satisfies returns an error if the devices of the allocation do not satisfy the request. It runs the search again with
// all other devices forbidden. If devices of joint types must share PCIe roots, the search must choose all devices of
// the allocation.
func (s *State) satisfies(r *Request, a *Allocation) error {
	own := *r
	own.templated = false // templates are not checked: they come from the configuration, not from the node
	only := &limit{}
	var given [numTypes]uint64
	for t := range a {
		for _, d := range a[t] {
			i, _ := s.index(Type(t), d.Minor)
			given[t] |= 1 << i
			for _, vf := range d.VFs {
				if want := r.of[t].vfs; want != nil && !s.Devices[t][i].hasVF(vf, want) {
					return fmt.Errorf("device %s %d has virtual function %.32s, which the request no longer selects", Type(t), d.Minor, vf.BusID)
				}
			}
		}
		only.banned[t] = ^given[t]
	}
	x := newSearch(s.Without(a), &own, &Options{})
	defer x.done()
	x.q.limit = only
	switch f := x.run(); {
	case f.why == tooFew && x.q.hasVerdict(f.what, given[f.what], kept):
		return fmt.Errorf("a device of type %s is used by or reserved for other pods", f.what)
	case f.why == tooFew:
		return fmt.Errorf("a device of type %s is not selected by the request", f.what)
	case f.why != found:
		return fmt.Errorf("the pod's devices do not satisfy its request: %s", x.reason(f))
	case r.samePCIe && x.chosen != given:
		return errors.New("devices are no longer on the same PCIe switches")
	}
	return nil
}

// hasVerdict reports whether one of the devices in the mask has the given verdict. The method verdictOn computes a
// device's verdict: whether the pod could have the device, or why not.
func (q *problem) hasVerdict(t Type, devices uint64, is verdict) bool {
	for left := devices; left != 0; left &= left - 1 {
		if q.verdictOn(t, bits.TrailingZeros64(left)) == is {
			return true
		}
	}
	return false
}

func (s *State) recheckDevice(t Type, given *DeviceAllocation) error {
	i, ok := s.index(t, given.Minor)
	if !ok {
		return fmt.Errorf("device %s %d is no longer in the Device object", t, given.Minor)
	}
	d := &s.Devices[t][i]
	switch {
	case given.UUID != d.UUID:
		return fmt.Errorf("device %s %d was replaced by another device (%.64s, was %.64s)", t, given.Minor, d.UUID, given.UUID)
	case !d.Healthy:
		return fmt.Errorf("device %s %d (%.64s) is unhealthy", t, given.Minor, d.UUID)
	}
	for r, amount := range given.Amounts {
		if used, total := max(amount, s.used[t][i][r]), d.Total[r]; amount > 0 && used > total {
			return fmt.Errorf("device %s %d (%.64s) is overcommitted: %s %d of %d is in use", t, given.Minor, d.UUID, resourceNames[r], used, total)
		}
	}
	for _, vf := range given.VFs {
		if !d.hasVF(vf, labels.Everything()) {
			return fmt.Errorf("device %s %d (%.64s) no longer has virtual function %.32s", t, given.Minor, d.UUID, vf.BusID)
		}
		at, _ := slices.BinarySearch(s.usedVFs[t][i], vf.BusID)
		if next := at + 1; next < len(s.usedVFs[t][i]) && s.usedVFs[t][i][next] == vf.BusID {
			return fmt.Errorf("device %s %d (%.64s) has virtual function %.32s in use by another pod", t, given.Minor, d.UUID, vf.BusID)
		}
	}
	return nil
}

func (d *Device) hasVF(vf VF, selected labels.Selector) bool {
	return slices.ContainsFunc(d.VFGroups, func(g VFGroup) bool {
		return selected.Matches(labels.Set(g.Labels)) && slices.ContainsFunc(g.VFs, func(other VF) bool { return other.BusID == vf.BusID })
	})
}
