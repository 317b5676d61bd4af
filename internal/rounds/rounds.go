// SPDX-License-Identifier: Apache-2.0

// Package rounds decides how long random tests run: in the short form of `make test`, or in the long one of `make test-long`. It is the
// only place that reads which.
package rounds

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Long is the environment variable that chooses the long form, with any value.
const Long = "TEST_LONG"

// Rounds is how many rounds of a kind random tests run.
type Rounds struct {
	value *int
	flag  string
}

// Flag defines a flag for rounds of one kind, with the number of the form that is chosen as its default. It is for variables of test
// packages.
func Flag(name string, short, long int, usage string) Rounds {
	chosen := short
	if os.Getenv(Long) != "" {
		chosen = long
	}
	usage = fmt.Sprintf("%s; in the short form %d, with %s set %d", usage, short, Long, long)
	return Rounds{value: flag.Int(name, chosen, usage), flag: name}
}

// Of returns the number of rounds, and logs it: a test never runs fewer in silence.
func (r Rounds) Of(t testing.TB) int {
	t.Helper()
	t.Logf("-%s=%d", r.flag, *r.value)
	return *r.value
}
