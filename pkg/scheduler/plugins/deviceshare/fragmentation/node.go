// SPDX-License-Identifier: Apache-2.0

package fragmentation

// Node has the free resources of a node.
type Node struct {
	// MilliCPU and Memory (in bytes) are the node's free amounts.
	MilliCPU, Memory int64
	// GPUs has the free part of each GPU. Model is the model of all GPUs of the node.
	GPUs  []GPU
	Model string
	// NICs has the free part of each NIC, in hundredths of a NIC.
	NICs []int64
}

// GPU is a part of a GPU, such as its free part, in hundredths. A device that has only one of the two values, such as
// an NPU without gpu-core, has the same value for both.
type GPU struct{ Core, Memory int64 }

// size returns the sum of the hundredths of cores and memory. A whole GPU has size 200.
func (g GPU) size() int64 { return g.Core + g.Memory }

// gpusOf converts a size (200 for a whole GPU) to a number of GPUs, which may be a fraction.
func gpusOf(size int64) float64 { return float64(size) / 200 }

// Fragment returns how much of the node's free GPUs future tasks of the classes are expected not to be able to use, as
// a number of GPUs.
func (k *TaskClasses) Fragment(n *Node) float64 {
	var total int64
	for _, g := range n.GPUs {
		total += g.size()
	}
	if total == 0 || len(k.all) == 0 {
		return 0
	}
	d := k.of(n.Model)
	return d.unusable(n, total) + d.starved(n, gpusOf(total))
}

// unusable returns the amount of free GPUs that the next task cannot use, as the weighted mean over the classes.
func (d *demand) unusable(n *Node, total int64) float64 {
	sum := d.refused * float64(total)
	var of GPU // the share for which the variables enough and scraps were computed
	var enough, scraps int64
	for i := range d.classes {
		class := &d.classes[i]
		if share := class.share(); i == 0 || share != of {
			of = share
			enough, scraps = share.sort(n.GPUs)
		}
		if class.GPUs > enough || class.MilliCPU > n.MilliCPU || class.Memory > n.Memory || class.NICs > 0 && class.NICs > n.nics(class.NICShare) {
			sum += class.weight * float64(total)
		} else {
			sum += class.weight * float64(scraps)
		}
	}
	return sum / 200
}

// sort returns how many of the GPUs have at least the share g free (enough), and the total free size of the other GPUs
// (scraps).
func (g GPU) sort(gpus []GPU) (enough, scraps int64) {
	for _, free := range gpus {
		if free.Core >= g.Core && free.Memory >= g.Memory {
			enough++
		} else {
			scraps += free.size()
		}
	}
	return enough, scraps
}

// nics returns how many of the node's NICs have at least the given share free.
func (n *Node) nics(share int64) int64 {
	var enough int64
	for _, free := range n.NICs {
		if free >= share {
			enough++
		}
	}
	return enough
}

// starved returns how many of the node's free GPUs cannot be used because the node has too little free CPU and memory
// for them. It assumes that tasks need the mean amounts of CPU and memory for each GPU.
func (d *demand) starved(n *Node, gpus float64) float64 {
	fed := gpus
	if d.milliCPU > 0 {
		fed = min(fed, float64(n.MilliCPU)/d.milliCPU)
	}
	if d.memory > 0 {
		fed = min(fed, float64(n.Memory)/d.memory)
	}
	return gpus - max(fed, 0)
}
