// SPDX-License-Identifier: Apache-2.0

// Package gangs has the gang controller. It converts gangs that are declared in other forms to Volcano's PodGroup, the
// only form that the scheduler reads. Pods name their Volcano PodGroup in the annotation scheduling.k8s.io/group-name.
//
// The other forms are Koordinator's annotations and labels of pods, PodGroups of scheduling.sigs.k8s.io, and PodGroups
// of scheduling.x-k8s.io (scheduler-plugins). For each such gang the controller creates a Volcano PodGroup with the
// gang's name. It keeps the settings of this PodGroup equal to the declaration, and adds the annotation to the gang's
// pods. A pod that has a node gets the annotation only if it has none yet. An object that declares the gang owns the
// Volcano PodGroup. Without such an object, the common controller of the pods owns it, or else some of the pods own it.
// It is then deleted with the last pod.
//
// A gang's key is its namespace and name. A sync reads the gang from the caches, computes the desired Volcano PodGroup,
// pods and user's object, and writes the differences. The controller keeps no state in memory, so a restart or another
// leader continues where the last one stopped. A sync writes nothing if nothing has changed.
//
// Invalid settings are reported in an event, and in the annotation coscheduling.volcano-prebind.io/message of the
// object with the settings. On users' PodGroups, the annotation coscheduling.volcano-prebind.io/reported records which
// texts events have reported.
package gangs
