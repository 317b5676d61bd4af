// SPDX-License-Identifier: Apache-2.0

// Package coscheduling schedules gangs by Koordinator's settings. The settings decide whether a gang is strict, which
// gangs form a group, and which members count for the minimum.
//
// The settings are annotations of Volcano's PodGroup (package gangs). For a PodGroup without settings, the plugin
// only reserves nodes. In each session the plugin decides
//
//   - the smallest number of members to place (minimum.go): all members of a strict gang, none of a satisfied gang;
//   - the gang group of each gang (ganggroups.go): the gangs that are placed and bound together, and the conditions that
//     each of them must meet at the barrier;
//   - whether a gang may be placed now: a group waits until each of its gangs has enough pods. A gang whose waiting time
//     has passed waits for the end of a backoff (timelimit.go);
//   - how members are divided over the domains of the network (topologies.go, network.go, requireddomain.go; package
//     topologyplan);
//   - which nodes are reserved for gangs that have waited for long, with or without settings (reservation.go);
//   - which PodGroups get a condition and an event because their settings are invalid (invalidsettings.go).
package coscheduling
