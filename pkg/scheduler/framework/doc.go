// SPDX-License-Identifier: Apache-2.0

// Package framework is what plugins and actions are written against: the Session view, the extension points
// this project adds to upstream's, and the registry that makes plugins known under their conf names.
//
// It knows no plugin, no action and no informer; it imports binding for the transactions' steps and nothing
// else of this project.
package framework
