// SPDX-License-Identifier: Apache-2.0

// Package assertions makes upstream log failed assertions instead of panicking, unless an environment variable asks for
// panics. It is imported for its side effect.
//
// Upstream asserts, with floats, that a sum of requests is at least as large as an amount that it subtracts from the
// sum. Rounding can make such an assertion fail: 9.2e15 bytes plus 500 are rounded to 9.2e15. Upstream reads an
// environment variable once, when its package is initialized; it does not panic if the value is false. Go initializes
// packages without uninitialized imports in the order of their paths. This package imports only package os, so it is
// initialized before all of upstream's packages.
package assertions

import "os"

// Variable is the environment variable that enables panics of upstream's assertions.
const Variable = "PANIC_ON_ERROR"

func init() {
	if os.Getenv(Variable) != "true" {
		if err := os.Setenv(Variable, "false"); err != nil {
			panic(err)
		}
	}
}
