// SPDX-License-Identifier: Apache-2.0

// Package keybytes appends values to keys of bytes. Different sequences of values of the same types always give
// different keys: a value has a fixed length or begins with its length, and a map begins with its number of entries.
package keybytes

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// Text appends a text to the key b.
func Text(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Flag appends a boolean to the key b.
func Flag(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Float appends a number to the key b.
func Float(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// Map appends the entries of a map to the key b, in the order of their keys. A nil map and an empty map give the same
// key.
func Map(b []byte, m map[string]string) []byte {
	if len(m) == 0 {
		return append(b, 0)
	}
	var room [16]string
	keys := slices.AppendSeq(room[:0], maps.Keys(m))
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = Text(Text(b, key), m[key])
	}
	return b
}
