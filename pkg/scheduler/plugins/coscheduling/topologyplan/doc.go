// SPDX-License-Identifier: Apache-2.0

// Package topologyplan divides the members of a gang over a tree of network domains (cluster, spine, block, node). Each node
// has slots: the number of members it can take. The package does not depend on pods or plugins.
//
// For each layer a gang may require one domain, prefer few domains, or require that the number of its members in each
// domain is a multiple of a number. The rules are Koordinator's, applied exactly: running members count, for the
// multiples too, and a domain is refused only if there is no way to divide the gang in it.
//
// The narrowest layer that has a domain for all members comes first. Its domains are ordered by
//
//  1. the number of the gang's own members in the domain, then in the domains around it, most first;
//  2. affinity (pods that the gang prefers to be near), in the same way;
//  3. the number of domains needed in the layers where the gang prefers few, fewest first;
//  4. slots in the domain and then around it, fewest first;
//  5. name.
//
// The parts of a domain are ordered by own members, most first, then by slots, most first, and by name, and are filled
// one after the other.
package topologyplan
