// SPDX-License-Identifier: Apache-2.0

// Package binding binds gangs. It takes the members of a gang that a scheduling session has placed, prepares each for its node
// with the pre-bind steps of plugins, and then binds enough of them to reach the gang's minimum, or none.
//
// A gang's members of one session are one Transaction. The Engine runs it in three parts:
//
//   - Pre-bind. Members run their chains in parallel; the steps of one chain run in order.
//   - Barrier. Once every member has passed or failed, the Gatekeeper decides whether the passed members are enough.
//   - Bind. Members that passed are bound in parallel, or, when they are too few, none is.
//
// A member that is not bound is rolled back, the last step first, before its resources are released in the Ledger. This covers
// every step that began, and every step that undoes something its plugin did when the member was placed (Step.RollbackIfNotRun).
// Invariants:
//
//   - No Binding of a transaction is sent before the Gatekeeper has found the members that have not failed at that moment
//     to be enough. A later loss (a Binding rejected for good, a pod or node deleted) fails its member alone.
//   - A bound member is never rolled back. If a member is not bound, each of its steps that has begun, or is marked with
//     RollbackIfNotRun, is rolled back successfully exactly once, while no step of the member runs.
//   - Whether a member is bound is never guessed: an unclear answer to a Binding is settled by reading the pod.
//   - Ledger.Bound or Ledger.Released is called once for each member, and then Ledger.Ended once. Only Abort leaves
//     members without either, and lists them in Result.Abandoned.
//   - A gang never waits for another gang, except for its turn for an API call.
//
// A run takes a transaction through these parts. Its roster is the state machine of its members: it decides which transitions a
// member may make and reports delays, and knows neither the run nor the Engine.
//
// The package knows nothing of informers, sessions or plugins: steps, minimum, API calls and accounting come in through the
// interfaces beside Transaction.
package binding
