// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines what Koordinator's node agent and device plugins exchange with a scheduler: Device objects, the ClusterNetworkTopology, and keys of annotations and labels. The
// types are wire-compatible with scheduling.koordinator.sh/v1alpha1, whichever CRD is installed.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.koordinator.sh
package v1alpha1
