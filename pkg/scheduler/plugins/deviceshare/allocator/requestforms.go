// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The names that pods use to request GPUs, in addition to the names of Resources.
const (
	nvidiaGPU v1.ResourceName = "nvidia.com/gpu"
	amdGPU    v1.ResourceName = "amd.com/gpu"
	dcuGPU    v1.ResourceName = "dcu.com/gpu"
	wholeGPU  v1.ResourceName = "koordinator.sh/gpu"
	gpuShared v1.ResourceName = "koordinator.sh/gpu.shared"
)

// asked holds a pod's requests for devices: the set of requested resource names, and the amount for each name.
type asked struct {
	form   form
	values [numNames]int64
}

// form is a set of resource names, with one bit for each name.
type form uint16

// The resource names of devices, numbered in the order of their bits in a form.
const (
	byNVIDIA = iota
	byAMD
	byDCU
	byGPU
	byShared
	byCore
	byRatio
	byMemory
	byNPUCore
	byNPUCPU
	byNPUDVPP
	byRDMA
	byFPGA
	numNames
)

var names = [numNames]v1.ResourceName{
	nvidiaGPU, amdGPU, dcuGPU, wholeGPU, gpuShared, resourceNames[Core], resourceNames[MemoryRatio], resourceNames[Memory],
	resourceNames[NPUCore], resourceNames[NPUCPU], resourceNames[NPUDVPP], resourceNames[RDMAShare], resourceNames[FPGAShare],
}

func formOf(bits ...int) form {
	var f form
	for _, bit := range bits {
		f |= 1 << bit
	}
	return f
}

var (
	gpuNames      = ^formOf(byRDMA, byFPGA)
	vendorForms   = []form{formOf(byNVIDIA), formOf(byAMD), formOf(byDCU)}
	templateForms = []form{formOf(byShared, byNPUCore, byNPUCPU, byMemory), formOf(byShared, byNPUCore, byNPUCPU, byNPUDVPP, byMemory)}
	// gpuForms are all sets of resource names that are valid in a request for GPUs.
	gpuForms = slices.Concat(vendorForms, templateForms, []form{
		formOf(byGPU), formOf(byMemory), formOf(byRatio), formOf(byCore, byMemory), formOf(byCore, byRatio), formOf(byNPUCore, byRatio),
		formOf(byShared, byMemory), formOf(byShared, byRatio), formOf(byShared, byCore, byMemory), formOf(byShared, byCore, byRatio),
	})
)

func (f form) String() string {
	var in []string
	for bit, name := range names {
		if f&(1<<bit) != 0 {
			in = append(in, string(name))
		}
	}
	return strings.Join(in, ", ")
}

// maxAmount limits all amounts of devices. It is low enough that neither a hundred times an amount, nor the sum over
// all pods of a node, overflows.
const maxAmount = math.MaxInt64 >> 16

// readAsked returns the pod's requests for devices, summed over its containers as Kubernetes does. Requests of
// containers that run at the same time are added. An init container counts together with the sidecars that started
// before it.
func readAsked(pod *v1.Pod) (asked, error) {
	var a asked
	var errs []error
	for bit, name := range names {
		value, found, err := sumOf(pod, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if name == gpuShared && found && value == 0 {
			errs = append(errs, fmt.Errorf("resource %s: is 0, must be the number of GPUs to share, at least 1", name))
		}
		if value > 0 {
			a.form |= 1 << bit
			a.values[bit] = value
		}
	}
	return a, errors.Join(errs...)
}

func sumOf(pod *v1.Pod, name v1.ResourceName) (sum int64, found bool, err error) {
	add := func(c *v1.Container, to int64) int64 {
		quantity, ok := c.Resources.Limits[name] // limits, not requests: Kubernetes requires both to be equal, and CountPod replaces requests
		if !ok {
			return to
		}
		found = true
		value, ok := wholeNumber(quantity)
		if !ok || value > maxAmount-to {
			err = fmt.Errorf("resource %s: container %.64q requests %.64s, must be a whole number, and all together at most %d", name, c.Name, quantity.String(), int64(maxAmount))
			return to
		}
		return to + value
	}
	for i := range pod.Spec.Containers {
		sum = add(&pod.Spec.Containers[i], sum)
	}
	var sidecars, most int64
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		most = max(most, add(c, sidecars))
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sidecars = add(c, sidecars)
			sum = add(c, sum)
		}
	}
	return max(sum, most), found, err
}

func wholeNumber(q resource.Quantity) (int64, bool) {
	value, ok := q.AsInt64()
	return value, ok && value >= 0
}

// normalizeGPUs converts a request for GPUs to a number of GPUs and the amounts of each GPU. The request may use any
// valid set of resource names.
func (a *asked) normalizeGPUs() (want typeRequest, err error) {
	f := a.form & gpuNames
	if f == 0 {
		return want, nil
	}
	if !slices.Contains(gpuForms, f) {
		return want, fmt.Errorf("resources %s: not a valid combination; request GPUs by %s alone, by %s alone, or by %s or %s, optionally with %s",
			f, nvidiaGPU, wholeGPU, formOf(byCore, byRatio), formOf(byCore, byMemory), gpuShared)
	}
	values := &a.values
	if slices.Contains(vendorForms, f) {
		count := values[byNVIDIA] + values[byAMD] + values[byDCU]
		want.amounts[Core], want.amounts[MemoryRatio], want.count = 100, 100, clampCount(count)
		return want, nil
	}
	core, ratio := values[byCore], values[byRatio]
	if f == formOf(byGPU) {
		core, ratio = values[byGPU], values[byGPU]
	}
	shared := values[byShared]
	for _, part := range []struct {
		name  v1.ResourceName
		value int64
	}{{names[byGPU], values[byGPU]}, {names[byCore], values[byCore]}, {names[byRatio], values[byRatio]}} {
		if shared == 0 && !isShareOrWhole(part.value) {
			return want, fmt.Errorf("resource %s: is %d, must be at most 100 or a multiple of 100", part.name, part.value)
		}
		if shared > 0 && (part.value%shared != 0 || part.value/shared > 100) {
			return want, fmt.Errorf("resource %s: is %d for %s (%s); it must divide equally among the GPUs, at most 100 for each", part.name, part.value, GPU.noun(int(shared)), gpuShared)
		}
	}
	count := shared
	switch {
	case shared > 0:
	case ratio > 100:
		count = ratio / 100
	case core > 100 && ratio == 0:
		count = core / 100
	default:
		count = 1
	}
	if slices.Contains(templateForms, f) && (shared != 1 || values[byNPUDVPP] > 100) {
		return want, fmt.Errorf("resources %s: %s is %d and %s is %d, must be 1 and at most 100", f, gpuShared, shared, names[byNPUDVPP], values[byNPUDVPP])
	}
	if core%count != 0 || core/count > 100 {
		return want, fmt.Errorf("resource %s: is %d for %s; it must divide equally among the GPUs, at most 100 for each", names[byCore], core, GPU.noun(int(count)))
	}
	if npuCore := values[byNPUCore]; npuCore%count != 0 {
		return want, fmt.Errorf("resource %s: is %d for %s; it must divide equally among the GPUs", names[byNPUCore], npuCore, GPU.noun(int(count)))
	}
	want.count = clampCount(count)
	want.amounts = Amounts{Core: core / count, MemoryRatio: ratio / count, Memory: (values[byMemory] + count - 1) / count,
		NPUCore: values[byNPUCore] / count, NPUCPU: values[byNPUCPU], NPUDVPP: values[byNPUDVPP]}
	return want, nil
}

// normalizeOthers returns the request for NICs or FPGAs. bit is the index of the resource name in names, and r is the
// resource. With asCount the requested value is a number of devices. Otherwise it is a share of one device in percent,
// or a multiple of 100 for whole devices.
func (a *asked) normalizeOthers(bit int, r Resource, asCount bool) (want typeRequest, err error) {
	value := a.values[bit]
	switch {
	case value == 0:
	case asCount:
		want.count, want.amounts[r] = clampCount(value), 1
	case !isShareOrWhole(value):
		return want, fmt.Errorf("resource %s: is %d, must be at most 100 or a multiple of 100", names[bit], value)
	case value > 100:
		want.count, want.amounts[r] = clampCount(value/100), 100
	default:
		want.count, want.amounts[r] = 1, value
	}
	return want, nil
}

func isShareOrWhole(value int64) bool { return value <= 100 || value%100 == 0 }

// clampCount limits a number of devices to math.MaxInt32, so that sums of such numbers cannot overflow. No node has so
// many devices.
func clampCount(n int64) int { return int(min(n, math.MaxInt32)) }
