// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the PodGroup of scheduling.sigs.k8s.io, with which users of Koordinator define a gang. The types are
// wire-compatible with Koordinator's, whichever CRD is installed. PodGroups of scheduler-plugins (scheduling.x-k8s.io) have the same
// fields and are read as the same types.
//
// The CRD is marked as unapproved, because the API server serves CRDs of k8s.io groups only with an api-approved annotation.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.sigs.k8s.io
// +groupGoName=Coscheduling
package v1alpha1
