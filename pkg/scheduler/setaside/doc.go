// SPDX-License-Identifier: Apache-2.0

// Package setaside keeps from sessions what would stop, slow or starve all others: one object stops nobody else.
//
//   - Numbers that upstream cannot reckon with are mended as objects come in (intake.go, quantities.go) and in each snapshot, and
//     so are queues from which no way leads to the root (unreckonable.go).
//   - Objects of which there is too much (toolarge.go), and gangs that name kinds of resources which nobody has (kinds.go), are left out.
//   - Objects with which cycles panic are searched for, left out, and tried again (hunt.go, held.go, mark.go).
//
// Aside (setaside.go) is what of all this the cache holds on to. It changes a snapshot before a session sees it; package report reports it.
package setaside
