// SPDX-License-Identifier: Apache-2.0

// Package bindpolicy checks CEL policies over the pod, the node and the PodGroup as the last check before a bind. The objects are
// read from the API server at that moment, not taken from the session's snapshot.
//
// A policy is compiled and type-checked when the configuration is loaded (compile.go). The plugin's pre-bind step evaluates the
// policy (policy.go). The step reads an object only if an expression uses it (view.go). The step writes nothing, so it has nothing
// to roll back.
package bindpolicy
