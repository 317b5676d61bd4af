// SPDX-License-Identifier: Apache-2.0

// Package rounds decides how many rounds random tests run: few in `make test`, the short form, and many in `make
// test-long`, the long form. No other code reads which form is selected.
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

// Flag defines a flag for a number of rounds. Its default is long if the environment variable Long is set, else short. It
// is meant for variables of test packages.
func Flag(name string, short, long int, usage string) Rounds {
	chosen := short
	if os.Getenv(Long) != "" {
		chosen = long
	}
	usage = fmt.Sprintf("%s; in the short form %d, with %s set %d", usage, short, Long, long)
	return Rounds{value: flag.Int(name, chosen, usage), flag: name}
}

// Of returns the number of rounds. It also logs the number, so that a test never runs too few rounds unnoticed.
func (r Rounds) Of(t testing.TB) int {
	t.Helper()
	t.Logf("-%s=%d", r.flag, *r.value)
	return *r.value
}
