// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"slices"
	"strings"
	"sync"
)

// TaskClasses holds classes of tasks with their weights. The zero value has no classes. It is immutable.
type TaskClasses struct {
	// all is sorted by the requested share of a GPU, so that classes with equal shares are adjacent. The weights sum to 1.
	all []weighted
	// byModel has the demand on nodes with GPUs of each model. Each demand is computed at its first use. mu guards
	// byModel.
	mu      sync.RWMutex
	byModel map[string]*demand
}

type weighted struct {
	TaskClass
	weight float64
}

// Supply is the number of GPUs of each model in the cluster; nil if the numbers are unknown.
type Supply map[string]int

// newTaskClasses weights classes by their frequency. If a class allows only a fraction of the cluster's GPUs, its
// weight is divided by this fraction. The reason is that each GPU that becomes unusable is a larger part of the GPUs
// that the class allows. A class that allows none of the GPUs is left out.
func newTaskClasses(list []counted, supply Supply) *TaskClasses {
	k := &TaskClasses{byModel: map[string]*demand{}}
	total := 0.0
	for _, c := range list {
		if weight := c.tasks * supply.scarcity(&c.TaskClass); weight > 0 {
			k.all = append(k.all, weighted{c.TaskClass, weight})
			total += weight
		}
	}
	for i := range k.all {
		k.all[i].weight /= total
	}
	slices.SortFunc(k.all, func(l, r weighted) int { return l.compare(&r.TaskClass) })
	return k
}

// scarcity returns the number of all GPUs divided by the number of GPUs that the class allows. It returns 0 if the
// class allows none of the GPUs, and 1 if the numbers of GPUs are unknown.
func (s Supply) scarcity(class *TaskClass) float64 {
	all, allowed := 0, 0
	for model, gpus := range s {
		all += gpus
		if class.allows(model) {
			allowed += gpus
		}
	}
	switch {
	case all == 0:
		return 1
	case allowed == 0:
		return 0
	default:
		return float64(all) / float64(allowed)
	}
}

// Len returns the number of classes.
func (k *TaskClasses) Len() int { return len(k.all) }

// demand describes what tasks of the classes need of nodes whose GPUs are of one model.
type demand struct {
	classes []weighted
	// refused is the sum of the weights of the classes that do not allow the GPU model.
	refused float64
	// milliCPU and memory are the mean amounts of CPU and memory that tasks of the classes need for each GPU.
	milliCPU, memory float64
}

// of returns the demand on nodes with GPUs of the given model.
func (k *TaskClasses) of(model string) *demand {
	k.mu.RLock()
	d := k.byModel[model]
	k.mu.RUnlock()
	if d != nil {
		return d
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byModel[model] == nil { // the string is cloned below, so that the caller's Node need not escape to the heap
		k.byModel[strings.Clone(model)] = k.newDemand(model)
	}
	return k.byModel[model]
}

func (k *TaskClasses) newDemand(model string) *demand {
	d := &demand{}
	var gpus, milliCPU, memory float64
	for i := range k.all {
		class := &k.all[i]
		if !class.allows(model) {
			d.refused += class.weight
			continue
		}
		d.classes = append(d.classes, *class)
		gpus += class.weight * float64(class.GPUs) * gpusOf(class.share().size())
		milliCPU += class.weight * float64(class.MilliCPU)
		memory += class.weight * float64(class.Memory)
	}
	if gpus > 0 {
		d.milliCPU, d.memory = milliCPU/gpus, memory/gpus
	}
	return d
}
