// SPDX-License-Identifier: Apache-2.0

// The attack program checks on a real control plane that a tenant with create rights in one namespace cannot occupy,
// idle or stop resources of other tenants.
//
// For each attack of the table:
//
//   - The tenant, a service account with the rights of a user in one namespace, attacks for some seconds.
//   - A victim in another namespace submits small gangs one after another. Each is timed from its last pod to its last
//     bind.
//   - While the attack still runs, the victim submits a gang that needs half of the cluster.
//   - The tenant's objects are deleted. The victim submits a gang that needs all nodes. Then queues, nodes and resident
//     pods are checked.
//
// Rounds without an attack come first and in between. An attack succeeds, and the program fails, if the victim's
// median delay exceeds the baseline's by a second, the scheduler uses twice the baseline's memory, a gang of the
// victim is not bound, or an effect outlasts the attack.
//
// The table is in table.go, the attacks in the files that it names, and the verdict in verdict.go. With --self-test,
// the program replaces the attacks by breakages that need an administrator's rights, and must find each of them.
package main
