// SPDX-License-Identifier: Apache-2.0

// Package podgroup copies this project's annotations from workloads to their PodGroups, and keeps upstream's podgroup
// controller away from pods whose PodGroup another controller creates.
//
// Upstream's controller creates a PodGroup for the pods of a ReplicaSet (and so of a Deployment), a StatefulSet, a
// DaemonSet or a Job. It copies only annotations with the prefix volcano.sh/ to the PodGroup. In this project it gets a
// client that adds this project's annotations to the same write. So the scheduler never sees the PodGroup without these
// annotations.
package podgroup
