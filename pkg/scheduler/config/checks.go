// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// check checks a value. It returns "" for a valid value, and otherwise a description of valid values that can follow
// "must be" in a message.
type check func(value any) string

// typeCheck returns the check for the declared type of an argument. It accepts the Go types that upstream's plugins
// expect.
func typeCheck(arg framework.Argument) check {
	switch arg.Type {
	case framework.String:
		return text(arg.Enum...)
	case framework.Bool:
		return boolean
	case framework.Int:
		return integer(math.MinInt, math.MaxInt)
	case framework.Number:
		return number
	case framework.Duration:
		if len(arg.Enum) > 0 {
			return either(duration, text(arg.Enum...))
		}
		return duration
	case framework.Strings:
		return textList
	case framework.Object:
		return object
	default:
		return func(any) string { return "" }
	}
}

func text(enum ...string) check {
	return func(value any) string {
		s, ok := value.(string)
		switch {
		case len(enum) == 0 && !ok:
			return "a string"
		case len(enum) > 0 && !slices.Contains(enum, s):
			return oneOf(enum)
		}
		return ""
	}
}

// either accepts a value that one of the two checks accepts.
func either(l, r check) check {
	return func(value any) string {
		first := l(value)
		if first == "" {
			return ""
		}
		second := r(value)
		if second == "" {
			return ""
		}
		return first + " or " + second
	}
}

func oneOf(enum []string) string {
	quoted := make([]string, len(enum))
	for i, s := range enum {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(quoted, " or ")
}

func boolean(value any) string {
	if _, ok := value.(bool); !ok {
		return "true or false"
	}
	return ""
}

func integer(low, high int) check {
	return func(value any) string {
		i, ok := value.(int)
		switch {
		case ok && i >= low && i <= high:
			return ""
		case low == math.MinInt:
			return "an integer"
		case high == math.MaxInt:
			return fmt.Sprintf("an integer of %d or more", low)
		default:
			return fmt.Sprintf("an integer between %d and %d", low, high)
		}
	}
}

var number = atLeast(-math.MaxFloat64, "a number")

// atLeast returns a check that accepts finite numbers of `low` or more. The parameter `what` describes valid values.
func atLeast(low float64, what string) check {
	return func(value any) string {
		n, ok := value.(float64)
		if i, isInt := value.(int); isInt {
			n, ok = float64(i), true
		}
		if ok && n >= low && !math.IsInf(n, 0) {
			return ""
		}
		return what
	}
}

var (
	duration         = durationFrom(math.MinInt64, "a duration")
	positiveDuration = durationFrom(1, "a duration over zero")
	// period accepts a duration such as the interval between two rounds, or the delay before an eviction.
	period = durationFrom(time.Second, "a duration of 1s or more")
)

// durationFrom returns a check that accepts durations of `least` or more. The parameter `what` describes them.
func durationFrom(least time.Duration, what string) check {
	return func(value any) string {
		s, _ := value.(string)
		if d, err := time.ParseDuration(s); err != nil || d < least {
			return what + ` such as "30s"`
		}
		return ""
	}
}

// webURL checks that a value is an http or https URL.
func webURL(value any) string {
	s, _ := value.(string)
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !isPort(u.Port()) {
		return `a URL such as "http://prometheus.monitoring:9090"`
	}
	return ""
}

// isPort reports whether the text is a valid port of a URL. An empty text is valid.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

func textList(value any) string {
	items, ok := value.([]any)
	for _, item := range items {
		if _, isText := item.(string); !isText {
			ok = false
		}
	}
	if !ok {
		return "a list of strings"
	}
	return ""
}

func object(value any) string {
	switch value.(type) {
	case map[any]any, []any:
		return ""
	default:
		return "a mapping or a list"
	}
}

// found returns a description of a value for the end of a message.
func found(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		if len(v) > 60 {
			v = strings.ToValidUTF8(v[:57], "") + "..."
		}
		return fmt.Sprintf("string %q", v)
	case bool:
		return fmt.Sprintf("bool %t", v)
	case int, int64, uint64:
		return fmt.Sprintf("int %d", v)
	case float64:
		return fmt.Sprintf("number %v", v)
	case []any:
		return "a list"
	case map[any]any:
		return "a mapping"
	default:
		return fmt.Sprintf("%v", v)
	}
}
