// SPDX-License-Identifier: Apache-2.0

// Package rounds decides how many rounds random tests run: the short form's numbers of `make test`, or the long form's
// of `make test-long`. No other code reads which form is selected.
package rounds

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Long is the environment variable that selects the long form, with any value.
const Long = "TEST_LONG"

// Rounds is a number of rounds of random tests, which a flag can set.
type Rounds struct {
	value *int
	flag  string
}

// Flag defines a flag for a number of rounds. Its default is that of the selected form. It is meant for variables of
// test packages.
func Flag(name string, short, long int, usage string) Rounds {
	chosen := short
	if os.Getenv(Long) != "" {
		chosen = long
	}
	usage = fmt.Sprintf("%s; in the short form %d, with %s set %d", usage, short, Long, long)
	return Rounds{value: flag.Int(name, chosen, usage), flag: name}
}

// Of returns the number of rounds, and logs it, so that a test never runs fewer unnoticed.
func (r Rounds) Of(t testing.TB) int {
	t.Helper()
	t.Logf("-%s=%d", r.flag, *r.value)
	return *r.value
}
