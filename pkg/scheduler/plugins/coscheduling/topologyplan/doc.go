// SPDX-License-Identifier: Apache-2.0

// Package topologyplan divides the members of a gang over a tree of network domains (cluster, spine, block, node).
// Each node has slots: the number of members that it can take. The package does not depend on pods or plugins.
//
// For each layer, a gang may require one domain, prefer few domains, or require that the number of its members in
// each domain is a multiple of a given number. The rules are Koordinator's, applied exactly. Running members count,
// also for the multiples. A domain is refused only if the gang cannot be divided in it in any way.
//
// The narrowest layer that has a domain for all members is used first. Its domains are ordered by
//
//  1. the number of the gang's members in the domain, then in the wider domains around it, most first;
//  2. affinity (the number of pods that the gang prefers to be near), in the same way;
//  3. the number of domains needed in the layers where the gang prefers few domains, fewest first;
//  4. the number of slots in the domain, then in the wider domains around it, fewest first;
//  5. name.
//
// The domains inside a domain are filled one after the other. They are ordered by the number of the gang's members,
// most first, then by slots, most first, then by name. But domains come before all others if the numbers of members
// that they can take are not just the multiples of one number.
package topologyplan
