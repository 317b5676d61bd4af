// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"fmt"
	"testing"
)

// logged is a test that keeps its log lines.
type logged struct {
	testing.TB
	lines []string
}

func (*logged) Helper() {}

func (l *logged) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func TestFlag(t *testing.T) {
	for form, want := range map[string]int{"": 3, "1": 30} {
		t.Run("TEST_LONG="+form, func(t *testing.T) {
			t.Setenv(Long, form)
			l := &logged{TB: t}
			if got := Flag("rounds"+form, 3, 30, "how many").Of(l); got != want {
				t.Errorf("%d rounds, want %d", got, want)
			}
			if line := fmt.Sprintf("-rounds%s=%d", form, want); len(l.lines) != 1 || l.lines[0] != line {
				t.Errorf("logged is %q, want %s", l.lines, line)
			}
		})
	}
}
