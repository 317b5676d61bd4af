// SPDX-License-Identifier: Apache-2.0

// Package random tests the allocate action on random clusters and workloads. It contains only tests.
//
// A seed determines an instance: nodes with labels, taints and pods that run or terminate, queues, gangs with
// constraints, HyperNodes or node groups, and the plugins of the configuration. Each outcome is checked in two ways.
// The function faults applies the rules of the API, and shares no code with an action or a plugin. The function leaks
// compares the session's sums with the outcome. The checks use the final nodes of pods. Some rules depend on the order
// of placement. The checks accept an outcome if some order explains it: see checkAffinity and checkSpread.
//
// # The comparison with upstream
//
// This project's action, below called ours, breaks no constraint in any instance. Upstream's action breaks some,
// because of known defects. In these instances, ours is still checked for faults, but the numbers of gangs are not
// compared.
//
// "Never fewer gangs than upstream" does not hold for single instances, for any two actions: upstream breaks ties at
// random, and the nodes of a gang decide whether the next gang fits. Both actions take the same queue, gang and task
// first, and both filter all nodes. (Upstream samples nodes in clusters of 100 or more; instances have at most 30.)
// Therefore:
//
//   - A node holds a fixed number of equal tasks without constraints between them: its capacity divided by the request.
//     The number of free places does not depend on which were used. So each step of both actions has the same result,
//     and the numbers of gangs and tasks are equal in every instance.
//   - One gang of any kind: upstream takes the best node for each task in turn and stops at the first task that fits
//     nowhere. Ours tries more, so it finds a placement whenever upstream always does. Upstream may be lucky, so it
//     runs five times, and its worst result counts.
//   - Many gangs: a gang that only ours places may prevent two later gangs. Over many instances ours places no fewer
//     gangs than upstream, within three standard deviations of the random difference.
//   - Upstream can place almost none of the gangs that ours leaves: its action runs after ours in the same session,
//     where both see the same nodes, and it places at most one in a thousand of all gangs. (Ours runs a second time
//     before, for gangs that fit only beside gangs placed after them, for example because of an affinity.)
//
// Only TestVolumes has gangs with claims, and pods do not share claims that wait for their first consumer: see the
// limits in docs/allocate.md.
//
// # Usage
//
// The default run takes about a minute. -random.seeds, -random.packings and -random.kept make it longer. -random.seed
// plays one instance and shows it:
//
//	go test ./test/allocate/random -run 'TestDifferential/many_gangs$' -v -random.seed=17
package random
