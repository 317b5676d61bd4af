// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the PodGroup of scheduling.sigs.k8s.io, by which users of Koordinator write a gang down. The types are ours and
// wire-compatible with Koordinator's: an object that the one writes the other reads, whatever wrote the CRD. PodGroups of
// scheduler-plugins, of the group scheduling.x-k8s.io, have the same fields and are read as the same types.
//
// The CRD says that it is unapproved, since the API server serves none of a group of k8s.io's that does not say.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.sigs.k8s.io
// +groupGoName=Coscheduling
package v1alpha1
