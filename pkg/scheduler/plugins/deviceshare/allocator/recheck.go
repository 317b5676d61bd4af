// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"slices"
)

// Recheck tells what speaks against binding a pod with the allocation, which the state has among its users: devices that went away, are others now, turned
// unhealthy, or that pods use more of than there is.
func (s *State) Recheck(a *Allocation) error {
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
	return errors.Join(errs...)
}

func (s *State) recheckDevice(t Type, given *DeviceAllocation) error {
	i, ok := s.index(t, given.Minor)
	if !ok {
		return fmt.Errorf("device %s %d is not in the Device object any more", t, given.Minor)
	}
	d := &s.Devices[t][i]
	switch {
	case given.UUID != d.UUID:
		return fmt.Errorf("device %s %d is another device now (%.64s, was %.64s)", t, given.Minor, d.UUID, given.UUID)
	case !d.Healthy:
		return fmt.Errorf("device %s %d (%.64s) is unhealthy", t, given.Minor, d.UUID)
	}
	for r, amount := range given.Amounts {
		if used, total := max(amount, s.used[t][i][r]), d.Total[r]; amount > 0 && used > total {
			return fmt.Errorf("device %s %d (%.64s) is over-booked: %s %d of %d is in use", t, given.Minor, d.UUID, resourceNames[r], used, total)
		}
	}
	for _, vf := range given.VFs {
		if !d.hasVF(vf) {
			return fmt.Errorf("device %s %d (%.64s) has no virtual function %.32s any more", t, given.Minor, d.UUID, vf.BusID)
		}
		at, _ := slices.BinarySearch(s.usedVFs[t][i], vf.BusID)
		if next := at + 1; next < len(s.usedVFs[t][i]) && s.usedVFs[t][i][next] == vf.BusID {
			return fmt.Errorf("device %s %d (%.64s) has virtual function %.32s in use by another pod", t, given.Minor, d.UUID, vf.BusID)
		}
	}
	return nil
}

func (d *Device) hasVF(vf VF) bool {
	return slices.ContainsFunc(d.VFGroups, func(g VFGroup) bool {
		return slices.ContainsFunc(g.VFs, func(other VF) bool { return other.BusID == vf.BusID })
	})
}
