// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// maxPartitions limits how many entries of each number of GPUs a partition table may have.
const maxPartitions = 1024

// parsePartitions parses the text of a node's partition table. The result has the entries by their number of GPUs,
// sorted by score, the best first, then by minors. If the text is empty, nodes with GPU models that are known to need a
// table get a built-in table. parsePartitions leaves out invalid entries and reports them in the error.
func parsePartitions(text string, i *Inventory) (map[int][]Partition, error) {
	if text == "" {
		return builtInPartitions(i), nil
	}
	var wire map[string][]struct {
		Minors           []int32            `json:"minors"`
		RingBusBandwidth *resource.Quantity `json:"ringBusBandwidth"`
		AllocationScore  int                `json:"allocationScore"`
	}
	if err := json.Unmarshal([]byte(text), &wire); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", v1alpha1.GPUPartitionsAnnotation,
			parseError(text, err, `a JSON object of partitions by number of GPUs, such as {"2":[{"minors":[0,1]}]}`))
	}
	table := make(map[int][]Partition, len(wire))
	var errs []error
	for size, entries := range wire {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || len(entries) > maxPartitions {
			errs = append(errs, fmt.Errorf("annotation %s: key %.32q has %d partitions; a key must be a number of GPUs, with at most %d partitions", v1alpha1.GPUPartitionsAnnotation, size, len(entries), maxPartitions))
			continue
		}
		for _, entry := range entries {
			minors := slices.Compact(slices.Sorted(slices.Values(entry.Minors)))
			p := Partition{Minors: minors, Score: entry.AllocationScore, mask: i.maskOf(minors)}
			if q := entry.RingBusBandwidth; q != nil {
				p.Bandwidth = max(q.Value(), 0)
			}
			if len(minors) != n || len(entry.Minors) != n {
				errs = append(errs, fmt.Errorf("annotation %s: a partition of %d has %d different minors, must be %d", v1alpha1.GPUPartitionsAnnotation, n, len(minors), n))
				continue
			}
			table[n] = append(table[n], p)
		}
		slices.SortFunc(table[n], func(a, b Partition) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), slices.Compare(a.Minors, b.Minors), cmp.Compare(b.Bandwidth, a.Bandwidth))
		})
	}
	return table, joinErrors(errs)
}

// builtInPartitions returns the partition table of boards with eight Hopper GPUs on NVSwitch; nil for other nodes. Such
// a board can give aligned groups of 1, 2, 4 and 8 GPUs to virtual machines
// (https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide).
func builtInPartitions(i *Inventory) map[int][]Partition {
	const gpus = 8
	gpu := i.Devices[GPU]
	if i.Vendor != "" && i.Vendor != "nvidia" || !slices.Contains([]string{"H100", "H800", "H20"}, i.Model) || len(gpu) != gpus || gpu[gpus-1].Minor != gpus-1 {
		return nil
	}
	table := make(map[int][]Partition)
	for size := 1; size <= gpus; size *= 2 {
		for from := 0; from < gpus; from += size {
			p := Partition{Score: 1}
			for minor := from; minor < from+size; minor++ {
				p.Minors = append(p.Minors, int32(minor))
			}
			p.mask = i.maskOf(p.Minors)
			table[size] = append(table[size], p)
		}
	}
	return table
}

// maskOf returns a mask with a bit for each GPU with one of these minors. The bits are numbered by the GPUs' indexes in
// the inventory. maskOf returns 0 if the node lacks one of the GPUs.
func (i *Inventory) maskOf(minors []int32) (mask uint64) {
	for _, minor := range minors {
		at, ok := i.index(GPU, minor)
		if !ok {
			return 0
		}
		mask |= 1 << at
	}
	return mask
}
