// SPDX-License-Identifier: Apache-2.0

// Package transaction is the built-in plugin that connects sessions with bind transactions. It is not in the configuration file:
// the scheduler puts it before the first tier of every configuration.
//
// The plugin leaves out gangs during the backoff after a failed transaction. After the backoff, a gang avoids the nodes on which its
// members failed, as long as other nodes have room for it. The plugin places partially bound gangs first (partiallybound.go), if they
// ask for no more than they have lost (losses.go).
package transaction
