// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is what Koordinator's node agent and device plugins exchange with a scheduler: Device objects, the ClusterNetworkTopology, and the keys of annotations and labels. The types are
// ours and wire-compatible with its scheduling.koordinator.sh/v1alpha1: an object that the one writes the other reads, whatever wrote the CRD.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.koordinator.sh
package v1alpha1
