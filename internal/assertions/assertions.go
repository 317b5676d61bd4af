// SPDX-License-Identifier: Apache-2.0

// Package assertions has upstream's assertions logged instead of panicking, unless the environment asks for panics. It is imported for its effect.
//
// Upstream asserts that what it takes from a sum of requests is in the sum, with floats: 9.2e15 bytes and 500 are as many bytes as 9.2e15. It
// reads once, when its package is initialized, whether to panic, from an environment variable that must say false. Go initializes packages that
// are ready in the order of their import paths, and this one needs package os alone: it comes before all of upstream's.
package assertions

import "os"

// Variable is the environment variable that upstream reads.
const Variable = "PANIC_ON_ERROR"

func init() {
	if os.Getenv(Variable) != "true" {
		if err := os.Setenv(Variable, "false"); err != nil {
			panic(err)
		}
	}
}
