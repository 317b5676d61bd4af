// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"strings"
)

// PodKeys are the keys of pods' labels and annotations that a plugin's predicate and node scores read. To the plugin,
// pods that differ only in other labels and annotations are equal. The zero value stands for all keys.
type PodKeys struct {
	some bool
	keys []string
}

// SomePodKeys returns PodKeys with exactly these keys, for labels and annotations alike. A key that ends in "/" stands
// for all keys that begin with it.
func SomePodKeys(keys ...string) PodKeys { return PodKeys{some: true, keys: keys} }

// All reports whether every label and annotation is read.
func (k PodKeys) All() bool { return !k.some }

// None reports whether no label or annotation is read.
func (k PodKeys) None() bool { return k.some && len(k.keys) == 0 }

// Has reports whether the key is read.
func (k PodKeys) Has(key string) bool {
	return !k.some || slices.ContainsFunc(k.keys, func(one string) bool {
		return one == key || strings.HasSuffix(one, "/") && strings.HasPrefix(key, one)
	})
}

// And returns the union of the keys of k and other.
func (k PodKeys) And(other PodKeys) PodKeys {
	return PodKeys{some: k.some && other.some, keys: slices.Concat(k.keys, other.keys)}
}
