// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// wireAllocation is the JSON form of one device in the annotation device-allocated. Fields that Koordinator's node
// agent reads have the names that the agent expects. The field exclusivePolicy is an addition to Koordinator's format.
// Without it, the annotation would not show that other pods must not use the device.
type wireAllocation struct {
	Minor     int32           `json:"minor"`
	Resources v1.ResourceList `json:"resources"`
	ID        string          `json:"id,omitempty"`
	Extension *wireExtension  `json:"extension,omitempty"`
}

type wireExtension struct {
	VFs             []wireVF `json:"vfs,omitempty"`
	Template        string   `json:"gpuSharedResourceTemplate,omitempty"`
	ExclusivePolicy string   `json:"exclusivePolicy,omitempty"`
}

type wireVF struct {
	Minor int32  `json:"minor,omitempty"`
	BusID string `json:"busID,omitempty"`
}

// Annotation returns the allocation as a value of v1alpha1.DeviceAllocatedAnnotation. Equal allocations have equal
// values.
func (a *Allocation) Annotation() string {
	wire := map[string][]wireAllocation{}
	if a != nil {
		for t, devices := range a {
			for i := range devices {
				wire[typeNames[t]] = append(wire[typeNames[t]], devices[i].wire())
			}
		}
	}
	text, err := json.Marshal(wire)
	if err != nil {
		// Marshalling these types cannot fail.
		panic(err)
	}
	return string(text)
}

func (d *DeviceAllocation) wire() wireAllocation {
	w := wireAllocation{Minor: d.Minor, ID: d.UUID, Resources: v1.ResourceList{}}
	for r, amount := range d.Amounts {
		if amount == 0 {
			continue
		}
		format := resource.DecimalSI
		if Resource(r) == Memory {
			format = resource.BinarySI
		}
		w.Resources[resourceNames[r]] = *resource.NewQuantity(amount, format)
	}
	if len(d.VFs) > 0 || d.Template != "" || d.Exclusive != NotExclusive {
		w.Extension = &wireExtension{Template: d.Template, ExclusivePolicy: d.Exclusive.String()}
		for _, vf := range d.VFs {
			w.Extension.VFs = append(w.Extension.VFs, wireVF(vf))
		}
	}
	return w
}

// ParseAllocation parses the value of v1alpha1.DeviceAllocatedAnnotation. It ignores unknown types and resources. With
// an error it still returns the readable part of the allocation, so that devices in use do not count as free.
func ParseAllocation(value string) (*Allocation, error) {
	wire := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(value), &wire); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", v1alpha1.DeviceAllocatedAnnotation,
			parseError(value, err, `a JSON object such as {"gpu":[{"minor":0}]}`))
	}
	a := &Allocation{}
	var errs []error
	for t, name := range typeNames {
		text, ok := wire[name]
		if !ok {
			continue
		}
		var devices []json.RawMessage
		if err := json.Unmarshal(text, &devices); err != nil {
			errs = append(errs, fmt.Errorf("%s: %.64q is not a list of devices", name, text))
			continue
		}
		for i, text := range devices {
			device, err := parseDeviceAllocation(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", name, i, err))
			}
			if device != nil {
				a[t] = append(a[t], *device)
			}
		}
		var err error
		if a[t], err = onceEach(a[t]); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", name, err))
		}
	}
	if err := joinErrors(errs); err != nil {
		return a, fmt.Errorf("annotation %s: %w", v1alpha1.DeviceAllocatedAnnotation, err)
	}
	return a, nil
}

// onceEach sorts the devices of an annotation by minor and merges entries with the same minor. A merged entry has the
// largest amount of each resource, because a sum could exceed the device. The error names the devices that had several
// entries.
func onceEach(devices []DeviceAllocation) ([]DeviceAllocation, error) {
	slices.SortStableFunc(devices, func(a, b DeviceAllocation) int { return cmp.Compare(a.Minor, b.Minor) })
	var errs []error
	once := devices[:0]
	for from := 0; from < len(devices); {
		device, to := devices[from], from+1
		for ; to < len(devices) && devices[to].Minor == device.Minor; to++ {
			device.Amounts = device.Amounts.Max(devices[to].Amounts)
			device.VFs, device.Exclusive = append(device.VFs, devices[to].VFs...), max(device.Exclusive, devices[to].Exclusive)
		}
		if to > from+1 {
			errs = append(errs, fmt.Errorf("%d: is listed %d times, must be once", device.Minor, to-from))
		}
		once = append(once, device)
		from = to
	}
	return once, joinErrors(errs)
}

// parseDeviceAllocation parses one device of the annotation device-allocated. For the JSON value null it returns nil
// without an error. If only a part of the device is invalid, it returns the valid part together with an error.
func parseDeviceAllocation(text json.RawMessage) (*DeviceAllocation, error) {
	var w *wireAllocation
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, parseError(string(text), err, `a JSON object such as {"minor":0}`)
	}
	if w == nil {
		return nil, nil
	}
	d := &DeviceAllocation{Minor: w.Minor, UUID: w.ID}
	var errs []error
	for r, name := range resourceNames {
		q, ok := w.Resources[name]
		if !ok {
			continue
		}
		value, ok := wholeNumber(q)
		if !ok || value > maxAmount {
			errs = append(errs, fmt.Errorf("resource %s: %.64s is not a whole number of at most %d", name, q.String(), int64(maxAmount)))
			if value = 0; q.Sign() > 0 {
				value = maxAmount
			}
		}
		d.Amounts[r] = value
	}
	if x := w.Extension; x != nil {
		d.Template = x.Template
		for _, vf := range x.VFs {
			d.VFs = append(d.VFs, VF(vf))
		}
		if at := slices.Index(exclusivityNames[:], x.ExclusivePolicy); at >= 0 {
			d.Exclusive = Exclusivity(at)
		}
	}
	return d, errors.Join(errs...)
}
