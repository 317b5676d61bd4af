// SPDX-License-Identifier: Apache-2.0

// Package gather divides the members of a gang over a tree of network domains (cluster, spine, block, node), each node of which has
// slots: how many members it takes. It knows nothing of pods or plugins.
//
// A gang says of layers that it must lie in one domain of it, that it would rather lie in few, or that each domain must have a multiple
// of so many of its members. The rules are Koordinator's, made exact: members that run already count, in the multiples too, and a
// domain is refused only if there is no way to divide the gang in it.
//
// The narrowest layer that has a domain for all members comes first. Of its domains come first those with more of the gang's own
// members, in them and then in the domains around them; with more company, likewise; that need fewer domains of the layers that the gang
// prefers to gather in; with fewer slots, in them and then around them; then by name. In a domain, those in it come by own members, by
// slots, most first, and by name, and are filled one after the other.
package gather
