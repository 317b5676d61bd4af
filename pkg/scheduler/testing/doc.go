// SPDX-License-Identifier: Apache-2.0

// Package testing has helpers that the tests of several scheduler packages share: builders of objects, a recorder that
// stores events, and a cluster in memory. It imports none of the packages under test, so that their own tests can
// import it.
package testing
