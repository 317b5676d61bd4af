// SPDX-License-Identifier: Apache-2.0

// Package testing holds what the scheduler's tests share: builders of objects, a recorder that remembers events, and a
// cluster in memory. It imports nothing of the packages under test, so that their own tests can import it.
package testing
