// SPDX-License-Identifier: Apache-2.0

// Package keybytes appends values to keys of bytes. Different sequences of values of the same types always give
// different keys: a value has a fixed length or begins with its length, and a map begins with its number of entries.
package keybytes

import (
	"encoding/binary"
	"math"
	"slices"
)

// Text appends texts to the key b.
func Text(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// Flag appends booleans to the key b.
func Flag(b []byte, values ...bool) []byte {
	for _, v := range values {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// Int appends integers to the key b.
func Int[T ~int | ~int32 | ~int64 | ~uint64](b []byte, values ...T) []byte {
	for _, v := range values {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

// Float appends numbers to the key b.
func Float(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// Map appends the entries of a map to the key b, in the order of their keys. A nil map and an empty map give the same
// key.
func Map(b []byte, m map[string]string) []byte {
	return MapOf(b, m, func(string) bool { return true }, func(b []byte, key string) []byte { return Text(b, m[key]) })
}

// MapOf appends the entries of a map whose keys `has` selects, in the order of their keys. appendValue appends the value
// of a key.
func MapOf[V any](b []byte, m map[string]V, has func(key string) bool, appendValue func(b []byte, key string) []byte) []byte {
	if len(m) == 0 {
		return append(b, 0)
	}
	var room [16]string
	keys := room[:0]
	for key := range m {
		if has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b = Int(b, len(keys))
	for _, key := range keys {
		b = appendValue(Text(b, key), key)
	}
	return b
}
