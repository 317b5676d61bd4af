// SPDX-License-Identifier: Apache-2.0

// Package gangs maps every other way to say "gang" to the one that the scheduler knows, Volcano's PodGroup, which pods name in the
// annotation scheduling.k8s.io/group-name.
//
// The other ways are Koordinator's annotations and labels of pods, PodGroups of scheduling.sigs.k8s.io, and PodGroups of
// scheduling.x-k8s.io, of scheduler-plugins. The controller makes a Volcano PodGroup of the gang's name, keeps it as the gang says, and
// patches the annotation into the pods that have no node. The PodGroup of a gang that is written in an object is owned by it; one of
// pods alone by their controller, or by some of them, and goes with the last of them.
//
// A gang's key is its namespace and name. A sync reads the gang from the caches, decides what the Volcano PodGroup, the pods and the
// user's object should be, and writes what differs: it has no memory of its own, so that a restart or another leader goes on where the
// last one stopped, and a sync of what did not change writes nothing.
//
// Invalid settings are reported in an event, and in the annotation coscheduling.volcano-prebind.io/message of the object that has them. On
// users' PodGroups the annotation coscheduling.volcano-prebind.io/reported records which texts events have reported.
package gangs
