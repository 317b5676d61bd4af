// SPDX-License-Identifier: Apache-2.0

package keybytes

import (
	"maps"
	"math"
	"slices"
	"testing"
)

// TestDifferentValuesHaveDifferentKeys checks that different values have different keys, even if they contain the same
// letters in the same order, such as "a", "bc" and "ab", "c".
func TestDifferentValuesHaveDifferentKeys(t *testing.T) {
	long := string(make([]byte, 300))
	texts := func(list ...string) (b []byte) {
		for _, s := range list {
			b = Text(b, s)
		}
		return b
	}
	keys := map[string][]byte{
		"no text": texts(), "an empty text": texts(""), "two empty texts": texts("", ""), "a, bc": texts("a", "bc"), "ab, c": texts("ab", "c"),
		"abc": texts("abc"), "a long text": texts(long), "a longer text": texts(long + "x"), "a long text, x": texts(long, "x"),
	}
	different(t, "texts", keys)
	different(t, "flags", map[string][]byte{"true": Flag(nil, true), "false": Flag(nil, false)})
	different(t, "numbers", map[string][]byte{"0": Float(nil, 0), "-0": Float(nil, math.Copysign(0, -1)), "1": Float(nil, 1), "1.5": Float(nil, 1.5)})
	different(t, "maps", map[string][]byte{
		"none": Map(nil, nil), "a: b": Map(nil, map[string]string{"a": "b"}), "ab: none": Map(nil, map[string]string{"ab": ""}),
		"a: b, c: d": Map(nil, map[string]string{"a": "b", "c": "d"}), "a: d, c: b": Map(nil, map[string]string{"a": "d", "c": "b"}),
	})
}

func different(t *testing.T, what string, keys map[string][]byte) {
	t.Helper()
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if other, ok := seen[string(keys[name])]; ok {
			t.Errorf("%s: %q and %q have the same key", what, name, other)
		}
		seen[string(keys[name])] = name
	}
}

// TestEqualMapsHaveEqualKeys checks that equal maps have equal keys, although the iteration order of a Go map is
// random.
func TestEqualMapsHaveEqualKeys(t *testing.T) {
	large := map[string]string{}
	for i := range 40 {
		large[string(rune('a'+i))] = "x"
	}
	for range 50 {
		if string(Map(nil, large)) != string(Map(nil, maps.Clone(large))) {
			t.Fatal("equal maps have different keys")
		}
	}
	if string(Map(nil, map[string]string{})) != string(Map(nil, nil)) {
		t.Error("an empty map and no map have different keys")
	}
}

// TestValuesAreAppended checks that values are appended to the key and do not replace its former content.
func TestValuesAreAppended(t *testing.T) {
	for name, b := range map[string][]byte{
		"text": Text([]byte("k"), "x"), "flag": Flag([]byte("k"), true), "number": Float([]byte("k"), 1), "map": Map([]byte("k"), map[string]string{"a": "b"}),
	} {
		if len(b) < 2 || b[0] != 'k' {
			t.Errorf("%s: the key is %q", name, b)
		}
	}
}
