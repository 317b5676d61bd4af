// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
)

// shape checks a value of an argument, and the values inside. It returns a description of each error. A number or
// boolean in quotes is taken without the quotes where it is valid so. at is the position of the value, for messages:
// the name of the argument, then keys and indexes.
type shape func(in inspection, at string, value *yamlNode) []string

// inspection is the check of an entry's arguments.
type inspection struct {
	p *parser
	e entry
}

// is returns a shape that applies the check `ok` to a single value.
func is(ok check) shape {
	return func(in inspection, at string, value *yamlNode) []string {
		want := ok(value.value)
		if want == "" {
			return nil
		}
		if plain, valid := unquotedFor(ok, value.value); valid && in.p.takePlain(value, argumentOf(in.e, at), plain) {
			return nil
		}
		return []string{fmt.Sprintf("%s must be %s, found %s", at, want, found(value.value))}
	}
}

// fields checks a mapping that may have only the known keys, each with its shape.
func fields(known map[string]shape) shape {
	return mapping(func(in inspection, at string, f *field) []string {
		inner, ok := known[f.key]
		if !ok {
			return []string{fmt.Sprintf("key %q of %s is unknown%s", f.key, at, meant(f.key, names(known)))}
		}
		return inner(in, at+"."+f.key, &f.yamlNode)
	})
}

// each checks a mapping with arbitrary keys. All values must have the shape inner.
func each(inner shape) shape {
	return mapping(func(in inspection, at string, f *field) []string { return inner(in, at+"."+f.key, &f.yamlNode) })
}

func mapping(visit func(in inspection, at string, f *field) []string) shape {
	return func(in inspection, at string, value *yamlNode) (wrong []string) {
		keys, _, ok := value.fields()
		if !ok {
			return []string{fmt.Sprintf("%s must be a mapping, found %s", at, found(value.value))}
		}
		slices.SortFunc(keys, func(a, b field) int { return cmp.Compare(a.key, b.key) })
		for i := range keys {
			wrong = append(wrong, visit(in, at, &keys[i])...)
		}
		return wrong
	}
}

// items checks a list. All items must have the shape inner.
func items(inner shape) shape {
	return func(in inspection, at string, value *yamlNode) (wrong []string) {
		list, ok := value.items()
		if !ok {
			return []string{fmt.Sprintf("%s must be a list, found %s", at, found(value.value))}
		}
		for i := range list {
			wrong = append(wrong, inner(in, fmt.Sprintf("%s[%d]", at, i), &list[i])...)
		}
		return wrong
	}
}
