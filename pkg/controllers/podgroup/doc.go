// SPDX-License-Identifier: Apache-2.0

// Package podgroup lets the PodGroups of workloads inherit this project's annotations, and keeps upstream's podgroup controller from
// pods whose PodGroup another controller makes.
//
// Upstream's podgroup controller makes a PodGroup for the pods of a ReplicaSet (and so of a Deployment), a StatefulSet, a
// DaemonSet or a Job. Of their annotations it copies those that begin with volcano.sh/ and no others. Here it is run with
// a client that adds ours in the very write that makes the PodGroup, so that the scheduler never sees it without them.
package podgroup
