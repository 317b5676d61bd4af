// SPDX-License-Identifier: Apache-2.0

// Package rounds decides how many rounds random tests run: few rounds in `make test`, the short form, and many rounds
// in `make test-long`, the long form. No other code reads which form is selected.
package rounds

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Long is the environment variable that selects the long form of random tests. Any value except the empty one selects
// it.
const Long = "TEST_LONG"

// Rounds is a number of rounds of random tests, which a flag can set.
type Rounds struct {
	value *int
	flag  string
}

// Flag defines a flag for the number of rounds of a test. The default is long if the environment variable Long is set,
// else short. Variables of test packages call Flag.
func Flag(name string, short, long int, usage string) Rounds {
	chosen := short
	if os.Getenv(Long) != "" {
		chosen = long
	}
	usage = fmt.Sprintf("%s; in the short form %d, with %s set %d", usage, short, Long, long)
	return Rounds{value: flag.Int(name, chosen, usage), flag: name}
}

// Of returns the number of rounds. It logs the number, so that a log shows when a test runs too few rounds.
func (r Rounds) Of(t testing.TB) int {
	t.Helper()
	t.Logf("-%s=%d", r.flag, *r.value)
	return *r.value
}
