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

// objectCheck checks the content of an argument of type Object. path is the position of the value inside the argument.
type objectCheck func(path path, value any) []problem

// problem is one error inside an argument.
type problem struct {
	msg string
	// quoted is the path to a value that is wrong only because it is written in quotes, and plain is the value without
	// quotes. Both are nil if the problem has another cause.
	quoted path
	plain  any
}

func problemf(format string, args ...any) problem { return problem{msg: fmt.Sprintf(format, args...)} }

// is returns an objectCheck that applies the check `ok` to a single value, at a path inside an argument.
func is(ok check) objectCheck {
	return func(path path, value any) []problem {
		want := ok(value)
		if want == "" {
			return nil
		}
		wrong := problemf("%s must be %s, found %s", path, want, found(value))
		if plain, found := unquotedFor(ok, value); found {
			wrong.quoted, wrong.plain = path, plain
		}
		return []problem{wrong}
	}
}

// fields checks a mapping that may have only the known keys, each with a value that passes its check.
func fields(known map[string]objectCheck) objectCheck {
	return mapping(func(path path, key string, value any) []problem {
		inner, ok := known[key]
		if !ok {
			valid := slices.Collect(maps.Keys(known))
			return []problem{problemf("key %q of %s is unknown%s", key, path, meant(key, valid))}
		}
		return inner(path.to(key), value)
	})
}

// each checks a mapping with arbitrary keys. All values must pass inner.
func each(inner objectCheck) objectCheck {
	return mapping(func(path path, key string, value any) []problem { return inner(path.to(key), value) })
}

func mapping(visit func(path path, key string, value any) []problem) objectCheck {
	return func(path path, value any) []problem {
		m, ok := value.(map[any]any)
		if !ok {
			return []problem{problemf("%s must be a mapping, found %s", path, found(value))}
		}
		byText := map[string]any{}
		for key, v := range m {
			byText[fmt.Sprint(key)] = v
		}
		var problems []problem
		for _, key := range slices.Sorted(maps.Keys(byText)) {
			problems = append(problems, visit(path, key, byText[key])...)
		}
		return problems
	}
}

// items checks a list. All items must pass inner.
func items(inner objectCheck) objectCheck {
	return func(path path, value any) []problem {
		list, ok := value.([]any)
		if !ok {
			return []problem{problemf("%s must be a list, found %s", path, found(value))}
		}
		var problems []problem
		for i, v := range list {
			problems = append(problems, inner(path.to(i), v)...)
		}
		return problems
	}
}

// shapes maps the names of arguments to the checks of their values. A name that ends in "*" stands for all arguments
// with this prefix.
type shapes map[string]objectCheck

// validate checks the arguments. It is the Validate function of a plugin or an action.
func (s shapes) validate(args framework.Arguments) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		for _, pattern := range slices.Sorted(maps.Keys(s)) {
			prefix, family := strings.CutSuffix(pattern, "*")
			if name != pattern && (!family || !strings.HasPrefix(name, prefix)) {
				continue
			}
			for _, wrong := range s[pattern](path{name}, args[name]) {
				errs = append(errs, &argumentError{name: name, problem: wrong})
			}
		}
	}
	return errors.Join(errs...)
}

// checks maps the names of scalar arguments to the checks of their values.
type checks map[string]check

func (c checks) validate(args framework.Arguments) error {
	s := shapes{}
	for name, ok := range c {
		s[name] = is(ok)
	}
	return s.validate(args)
}

// all returns a Validate function that calls several Validate functions and joins their errors.
func all(validates ...func(framework.Arguments) error) func(framework.Arguments) error {
	return func(args framework.Arguments) error {
		errs := make([]error, len(validates))
		for i, validate := range validates {
			errs[i] = validate(args)
		}
		return errors.Join(errs...)
	}
}
