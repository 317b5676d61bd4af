// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/suggest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// failurePolicy says what happens to a task if a policy cannot be evaluated.
type failurePolicy string

const (
	// failClosed refuses the task, so that the task is not bound.
	failClosed failurePolicy = "Fail"
	// failOpen ignores the policy, so that the task can be bound.
	failOpen failurePolicy = "Ignore"
)

// maxCostLimit is the upper limit and the default of a policy's costLimit, which bounds one evaluation of one
// expression in CEL cost units. The API server has the same limit for one expression of an admission policy: some
// tenths of a second of work at worst. A timeout does not replace the limit: the end of the context stops only the
// innermost comprehension, not the comprehensions around it.
const maxCostLimit = celconfig.PerCallLimit

// Limits on the number and size of policies, because a compiled expression takes hundreds of times the memory of its
// text.
const (
	maxPolicies = 100
	// maxName limits the name of a policy, maxField each of its other texts, and maxTexts the sum of all texts of all
	// policies, in bytes.
	maxName  = 253
	maxField = 16 << 10
	maxTexts = 64 << 10
	// maxFindings limits how many errors in the arguments are reported.
	maxFindings = 20
)

// policyConfig is one policy in the plugin's arguments.
type policyConfig struct {
	name              string
	matchCondition    string
	expression        string
	messageExpression string
	message           string
	failurePolicy     failurePolicy
	// costLimit bounds one evaluation of one expression, in CEL cost units.
	costLimit uint64
}

// setters has, for each field name of a policy, a function that parses the field's value into the policyConfig.
var setters = map[string]func(*policyConfig, any) error{
	"name":              func(c *policyConfig, v any) error { return setName(&c.name, v) },
	"matchCondition":    func(c *policyConfig, v any) error { return setText(&c.matchCondition, v) },
	"expression":        func(c *policyConfig, v any) error { return setText(&c.expression, v) },
	"messageExpression": func(c *policyConfig, v any) error { return setText(&c.messageExpression, v) },
	"message":           func(c *policyConfig, v any) error { return setText(&c.message, v) },
	"failurePolicy":     func(c *policyConfig, v any) error { return setFailurePolicy(&c.failurePolicy, v) },
	"costLimit":         func(c *policyConfig, v any) error { return setCostLimit(&c.costLimit, v) },
}

func parseTimeout(args framework.Arguments) (time.Duration, error) {
	value, ok := args[timeoutArgument]
	if !ok {
		return defaultTimeout, nil
	}
	text, _ := value.(string)
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("%s: found %s, want a duration above zero such as \"10s\"", timeoutArgument, describe(value))
	}
	return timeout, nil
}

// parsePolicies parses the plugin's list of policies. It returns no policies if the argument is missing. If one of the
// policies is invalid, parsePolicies returns the policies together with an error.
func parsePolicies(args framework.Arguments) ([]policyConfig, error) {
	value, ok := args[policiesArgument]
	if !ok {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: found %s, want a list of policies, each with a name and an expression",
			policiesArgument, describe(value))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: found an empty list, want at least one policy: without any the plugin checks nothing", policiesArgument)
	}
	if len(list) > maxPolicies {
		return nil, fmt.Errorf("%s: found %d policies, want at most %d", policiesArgument, len(list), maxPolicies)
	}
	var configs []policyConfig
	var errs []error
	texts := 0
	seen := map[string]bool{}
	for i, item := range list {
		config, label, err := parsePolicy(item, i)
		errs = append(errs, err)
		if config.name != "" && seen[config.name] {
			errs = append(errs, fmt.Errorf("%s: %s: the name is used by more than one policy, give each its own",
				policiesArgument, label))
		}
		seen[config.name] = true
		configs = append(configs, config)
		texts += len(config.matchCondition) + len(config.expression) + len(config.messageExpression) + len(config.message)
	}
	if texts > maxTexts {
		return nil, fmt.Errorf("%s: found expressions and messages of %d bytes together, want at most %d", policiesArgument, texts, maxTexts)
	}
	return configs, errors.Join(errs...)
}

// parsePolicy parses the policy at the index of the list. It also returns the label that identifies the policy in error
// messages.
func parsePolicy(item any, index int) (policyConfig, string, error) {
	config := policyConfig{failurePolicy: failClosed, costLimit: maxCostLimit}
	label := fmt.Sprintf("policy number %d", index+1)
	mapping, err := stringKeys(item)
	if err != nil {
		return config, label, fmt.Errorf("%s: %s: %w", policiesArgument, label, err)
	}
	if name, ok := mapping["name"].(string); ok && strings.TrimSpace(name) != "" {
		label = "policy " + brief.Value(name)
	}
	var errs []error
	fail := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %s: %w", policiesArgument, label, fmt.Errorf(format, a...)))
	}
	for _, key := range sortedKeys(mapping) {
		set, ok := setters[key]
		if !ok {
			fail("unknown field %s, %s", brief.Value(key), meant(key, sortedKeys(setters)))
			continue
		}
		if err := set(&config, mapping[key]); err != nil {
			fail("field %q: %w", key, err)
		}
	}
	if _, ok := mapping["name"]; !ok {
		fail(`field "name" is missing, give the policy a name of its own`)
	}
	if _, ok := mapping["expression"]; !ok {
		fail(`field "expression" is missing, give a CEL expression that is true when the pod may be bound`)
	}
	return config, label, errors.Join(errs...)
}

// stringKeys converts a YAML mapping to a map with string keys. YAML libraries produce one of two map types.
func stringKeys(value any) (map[string]any, error) {
	switch mapping := value.(type) {
	case map[string]any:
		return mapping, nil
	case map[any]any:
		out := make(map[string]any, len(mapping))
		for key, v := range mapping {
			text, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("found the key %s, want the name of a field", describe(key))
			}
			out[text] = v
		}
		return out, nil
	}
	return nil, fmt.Errorf("found %s, want a mapping with at least name and expression", describe(value))
}

func setText(target *string, value any) error {
	text, ok := value.(string)
	if !ok || strings.TrimSpace(text) == "" {
		return fmt.Errorf("found %s, want a string that is not empty", describe(value))
	}
	if len(text) > maxField {
		return fmt.Errorf("found %d bytes, want at most %d", len(text), maxField)
	}
	*target = text
	return nil
}

func setName(target *string, value any) error {
	if text, ok := value.(string); ok && len(text) > maxName {
		return fmt.Errorf("found %d bytes, want at most %d", len(text), maxName)
	}
	return setText(target, value)
}

func setFailurePolicy(target *failurePolicy, value any) error {
	text, _ := value.(string)
	switch policy := failurePolicy(text); policy {
	case failClosed, failOpen:
		*target = policy
		return nil
	}
	return fmt.Errorf("found %s, want %q or %q", describe(value), failClosed, failOpen)
}

func setCostLimit(target *uint64, value any) error {
	limit := 0.0
	switch n := value.(type) {
	case int:
		limit = float64(n)
	case int64:
		limit = float64(n)
	case uint64:
		limit = float64(n)
	case float64:
		limit = n
	}
	if limit < 1 || limit > maxCostLimit || limit != math.Trunc(limit) {
		return fmt.Errorf("found %s, want a whole number from 1 to %d", describe(value), maxCostLimit)
	}
	*target = uint64(limit)
	return nil
}

// describe returns a description of a YAML value for error messages.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return brief.Value(v)
	case float64: // a number that passed through JSON; %v could write it with an exponent
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a mapping"
	default:
		return fmt.Sprintf("%v", v)
	}
}

// joined joins the errors into one. It reports at most maxFindings errors, and how many more exist.
func joined(errs ...error) error {
	var reported []error
	total := 0
	var add func(error)
	add = func(err error) {
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			for _, inner := range list.Unwrap() {
				add(inner)
			}
			return
		}
		if err == nil {
			return
		}
		if total++; total <= maxFindings {
			reported = append(reported, errors.New(brief.Text(err.Error())))
		}
	}
	for _, err := range errs {
		add(err)
	}
	if total > maxFindings {
		reported = append(reported, fmt.Errorf("and %d more errors", total-maxFindings))
	}
	return errors.Join(reported...)
}

// meant returns the end of a message about an unknown key: the known key with the most similar name, or all known keys.
func meant(key string, known []string) string {
	if near := suggest.Nearest(key, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "the fields are " + strings.Join(known, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
