// SPDX-License-Identifier: Apache-2.0

// Package random tests the allocate action on random clusters and workloads. It holds only tests.
//
// An instance is drawn from a seed: nodes with labels, taints and pods that run or are about to end, queues, gangs with
// constraints, HyperNodes or node groups, and the plugins of the conf. An outcome is judged by the API's rules alone
// (faults), by code that shares nothing with an action or a plugin, and by whether the session's books agree with it (leaks).
// What is judged is where pods are in the end. Order matters to some rules; they are read so that an outcome that some order
// explains is right: see checkAffinity and checkSpread.
//
// # What can be asked of a comparison with upstream
//
// Ours breaks no constraint in any instance. Upstream's does in some, by defects that are known: those instances count for the
// faults of ours, and not for the numbers of gangs, as what was placed against the rules is no measure.
//
// "Never fewer gangs than upstream" is not true of single instances, for any two actions: upstream breaks ties by chance, and
// where a gang is placed decides whether the next one fits. Both take the same queue, gang and task first, and both look at
// all nodes (upstream leaves nodes out from 100 on; instances have 30 at most). From that follows:
//
//   - Tasks that are alike and that do not constrain one another take from each node a number of places that is fixed by the
//     node: capacity divided by request. How many are left does not depend on which were taken, so each step of both actions
//     has the same answer, and the numbers of gangs and tasks are equal in every instance.
//   - One gang of any make: upstream takes the best node for each task in turn and stops at the first that fits nowhere. Ours
//     tries more, so it finds a place whenever upstream always does. Upstream may be lucky: it is asked five times, and its
//     worst is what counts.
//   - Many gangs: placing a gang that upstream does not may cost two that come later. Over many instances ours has no fewer, but
//     for three standard deviations of the difference that chance alone would make.
//   - What ours leaves, upstream cannot place: its action runs after ours in the same session, where both see the same nodes,
//     and places none of the gangs left, but for one in a thousand. (Ours runs a second time before, for gangs that those after
//     them made room or company for.)
//
// Gangs have claims in TestVolumes only, and pods do not share claims that wait for their first consumer: see the limits in
// docs/allocate.md.
//
// # How to use it
//
// The default run takes about a minute. -random.seeds, -random.packings and -random.kept make it longer, -random.seed plays one instance and
// shows it:
//
//	go test ./test/allocate/random -run 'TestDifferential/many_gangs$' -v -random.seed=17
package random
