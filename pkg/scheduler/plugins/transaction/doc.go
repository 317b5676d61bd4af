// SPDX-License-Identifier: Apache-2.0

// Package transaction is the built-in plugin that connects sessions with bind transactions. It is not in the configuration file:
// the scheduler puts it before the first tier of every configuration.
//
// The plugin leaves out gangs during the backoff after a failed transaction. After the backoff, a gang avoids the nodes on which its
// members failed, as long as other nodes have room for it. The plugin finds partially bound gangs (partiallybound.go), and places
// first their members whose bind was interrupted (interrupted.go).
package transaction
