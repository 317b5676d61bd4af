// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"binpack", "bindpolicy", "gang", "Gang2"}
	for name, tt := range map[string]struct{ typed, want string }{
		"a letter is wrong":               {"bimpack", "binpack"},
		"a letter is missing":             {"gng", "gang"},
		"a letter is too many":            {"gangs", "Gang2"}, // Both names are one edit away, and "Gang2" sorts first.
		"case is no edit":                 {"GANG", "gang"},
		"half of it is another":           {"ga", "gang"},
		"more than half of it is another": {"xyz", ""},
		"nothing":                         {"", ""},
		"longer than anything known":      {strings.Repeat("gang", 1<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(tt.typed, known); got != tt.want {
				t.Errorf("%.20q may have been meant to be %q, want %q", tt.typed, got, tt.want)
			}
		})
	}
}
