// SPDX-License-Identifier: Apache-2.0

// Package allocate holds what the allocate action does, seen from outside: tables of worlds and of what must become of
// them, for this project's action and for upstream's where both agree, and the regression tests of upstream's defects.
package allocate
