// SPDX-License-Identifier: Apache-2.0

// Package evictionbackoff is the built-in plugin that keeps evictions from repeating. The conf does not name it: the
// scheduler puts it before the first tier of every configuration.
//
// Preempt and reclaim evict pods in one session for a gang that is placed in a later session. If another
// gang takes the released resources first, the actions evict again, session after session. To prevent this:
//
//   - Resources released for a gang stay with the gang. Its nominees are placed first until the victims have terminated, or
//     should have terminated. The first session of a process makes the claims of a former leader again (formerleader.go).
//   - A gang that evicted pods pauses before it evicts again, twice as long each time, until it is placed.
//   - A queue that lost pods pauses in the same way before it reclaims from other queues.
//   - For all gangs except the one that evicted them, victims count in their queue until they have terminated: see [rooms].
//
// In a cycle, each of upstream's actions searches for victims for the gangs of one namespace for at most a tenth of a second,
// plus one gang's search. The gangs of a namespace take turns: see [turns].
//
// The first eviction for a gang is never delayed.
package evictionbackoff
