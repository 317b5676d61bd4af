// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// shape checks the inside of an Object argument. path is the way to the value, for messages.
type shape func(path string, value any) []string

// is makes a shape of a check.
func is(ok check) shape {
	return func(path string, value any) []string {
		if want := ok(value); want != "" {
			return []string{fmt.Sprintf("%s must be %s, found %s", path, want, found(value))}
		}
		return nil
	}
}

// fields is a mapping with these keys and no others.
func fields(known map[string]shape) shape {
	return mapping(func(path, key string, value any) []string {
		inner, ok := known[key]
		if !ok {
			valid := slices.Collect(maps.Keys(known))
			return []string{fmt.Sprintf("key %q of %s is unknown%s", key, path, suggest(key, valid))}
		}
		return inner(path+"."+key, value)
	})
}

// each is a mapping from any text to values of one shape.
func each(inner shape) shape {
	return mapping(func(path, key string, value any) []string { return inner(path+"."+key, value) })
}

func mapping(visit func(path, key string, value any) []string) shape {
	return func(path string, value any) []string {
		m, ok := value.(map[any]any)
		if !ok {
			return []string{fmt.Sprintf("%s must be a mapping, found %s", path, found(value))}
		}
		byText := map[string]any{}
		for key, v := range m {
			byText[fmt.Sprint(key)] = v
		}
		var msgs []string
		for _, key := range slices.Sorted(maps.Keys(byText)) {
			msgs = append(msgs, visit(path, key, byText[key])...)
		}
		return msgs
	}
}

// items is a list of values of one shape.
func items(inner shape) shape {
	return func(path string, value any) []string {
		list, ok := value.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s must be a list, found %s", path, found(value))}
		}
		var msgs []string
		for i, v := range list {
			msgs = append(msgs, inner(fmt.Sprintf("%s[%d]", path, i), v)...)
		}
		return msgs
	}
}

// shapes maps argument names, or families ending in "*", to what their values must be.
type shapes map[string]shape

// validate is a Validate function for a spec.
func (s shapes) validate(args framework.Arguments) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		for _, pattern := range slices.Sorted(maps.Keys(s)) {
			prefix, family := strings.CutSuffix(pattern, "*")
			if name != pattern && (!family || !strings.HasPrefix(name, prefix)) {
				continue
			}
			for _, msg := range s[pattern](name, args[name]) {
				errs = append(errs, &argumentError{name: name, msg: msg})
			}
		}
	}
	return errors.Join(errs...)
}

// checks is shapes for arguments without an inside.
type checks map[string]check

func (c checks) validate(args framework.Arguments) error {
	s := shapes{}
	for name, ok := range c {
		s[name] = is(ok)
	}
	return s.validate(args)
}

// all joins several Validate functions.
func all(validates ...func(framework.Arguments) error) func(framework.Arguments) error {
	return func(args framework.Arguments) error {
		errs := make([]error, len(validates))
		for i, validate := range validates {
			errs[i] = validate(args)
		}
		return errors.Join(errs...)
	}
}
