// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"strings"
)

// PodKeys are the labels and annotations of pods that a plugin's predicate and node scores look at: pods that are equal but for
// others are one to it. The zero value is all there are.
type PodKeys struct {
	some bool
	keys []string
}

// SomePodKeys are the keys and no others, of labels and annotations alike. One that ends in "/" stands for all that begin with it.
func SomePodKeys(keys ...string) PodKeys { return PodKeys{some: true, keys: keys} }

// All is true if every label and annotation is looked at.
func (k PodKeys) All() bool { return !k.some }

// None reports whether no label or annotation is looked at.
func (k PodKeys) None() bool { return k.some && len(k.keys) == 0 }

// Has is true if the key is among them.
func (k PodKeys) Has(key string) bool {
	return !k.some || slices.ContainsFunc(k.keys, func(one string) bool {
		return one == key || strings.HasSuffix(one, "/") && strings.HasPrefix(key, one)
	})
}

// And are the keys of both.
func (k PodKeys) And(other PodKeys) PodKeys {
	return PodKeys{some: k.some && other.some, keys: slices.Concat(k.keys, other.keys)}
}
