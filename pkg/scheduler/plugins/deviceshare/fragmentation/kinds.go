// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"slices"
	"strings"
	"sync"
)

// Kinds are kinds of tasks with their weights. The zero value has none. It is immutable.
type Kinds struct {
	// all is sorted by share, so that equal shares are adjacent. The weights sum to 1.
	all []weighted
	// byModel is the demand on nodes of each model, computed at its first use.
	mu      sync.RWMutex
	byModel map[string]*demand
}

type weighted struct {
	Kind
	weight float64
}

// Supply is the number of GPUs of each model in the cluster; nil if unknown.
type Supply map[string]int

// newKinds weighs kinds by frequency. A kind that allows only some of the cluster's GPUs weighs more by the inverse of that
// fraction, since each GPU that it cannot use is a larger part of its supply. A kind that allows none has weight 0.
func newKinds(list []counted, supply Supply) *Kinds {
	k := &Kinds{byModel: map[string]*demand{}}
	total := 0.0
	for _, c := range list {
		if weight := c.tasks * supply.scarcity(&c.Kind); weight > 0 {
			k.all = append(k.all, weighted{c.Kind, weight})
			total += weight
		}
	}
	for i := range k.all {
		k.all[i].weight /= total
	}
	slices.SortFunc(k.all, func(l, r weighted) int { return l.compare(&r.Kind) })
	return k
}

// scarcity returns the ratio of all GPUs to the GPUs that the kind allows; 0 if it allows none of them.
func (s Supply) scarcity(kind *Kind) float64 {
	all, allowed := 0, 0
	for model, gpus := range s {
		all += gpus
		if kind.allows(model) {
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

// Len returns the number of kinds.
func (k *Kinds) Len() int { return len(k.all) }

// demand is the demand of the kinds on nodes with GPUs of one model.
type demand struct {
	kinds []weighted
	// refused is the weight of the kinds that do not allow the model.
	refused float64
	// milliCPU and memory are the mean needs of the kinds for each GPU.
	milliCPU, memory float64
}

// of returns the demand for the model.
func (k *Kinds) of(model string) *demand {
	k.mu.RLock()
	d := k.byModel[model]
	k.mu.RUnlock()
	if d != nil {
		return d
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byModel[model] == nil { // cloned, so that the caller's node can stay on its stack
		k.byModel[strings.Clone(model)] = k.newDemand(model)
	}
	return k.byModel[model]
}

func (k *Kinds) newDemand(model string) *demand {
	d := &demand{}
	var gpus, milliCPU, memory float64
	for i := range k.all {
		kind := &k.all[i]
		if !kind.allows(model) {
			d.refused += kind.weight
			continue
		}
		d.kinds = append(d.kinds, *kind)
		gpus += kind.weight * float64(kind.GPUs) * gpusOf(kind.share().size())
		milliCPU += kind.weight * float64(kind.MilliCPU)
		memory += kind.weight * float64(kind.Memory)
	}
	if gpus > 0 {
		d.milliCPU, d.memory = milliCPU/gpus, memory/gpus
	}
	return d
}
