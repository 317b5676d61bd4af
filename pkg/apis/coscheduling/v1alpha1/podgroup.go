// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is a gang as its user writes it down. Pods belong to it by the label pod-group.scheduling.sigs.k8s.io. Its status is
// written with the object, since there is no status subresource.
//
// +genclient
// +genclient:noStatus
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, for those who come from Koordinator"
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=MinMember,type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name=Scheduled,type=integer,JSONPath=`.status.scheduled`
// +kubebuilder:printcolumn:name=Running,type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodGroupSpec   `json:"spec,omitempty"`
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}

// PodGroupSpec is what the user asks for.
type PodGroupSpec struct {
	// How many members run, or none does. One below 1 is taken as 1.
	MinMember int32 `json:"minMember,omitempty"`
	// Nobody reads it here: what members ask for is in the pods.
	MinResources v1.ResourceList `json:"minResources,omitempty"`
	// How long the gang waits for its members and for room before it is sent back, in seconds.
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupPhase is how far the gang is.
type PodGroupPhase string

// The phases.
const (
	// PodGroupPending: there are fewer members than the minimum, and none of them has a node.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupPreScheduling: there are enough, and not all of them have been handed to the scheduler.
	PodGroupPreScheduling PodGroupPhase = "PreScheduling"
	// PodGroupScheduling: there are enough, and fewer than the minimum have a node; or there are too few, and some have one.
	PodGroupScheduling PodGroupPhase = "Scheduling"
	// PodGroupScheduled: as many as the minimum have a node.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: as many run, or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupFinished: as many have succeeded.
	PodGroupFinished PodGroupPhase = "Finished"
	// PodGroupFailed: one has failed, of as many that ran.
	PodGroupFailed PodGroupPhase = "Failed"
)

// PodGroupStatus is how far the gang is.
type PodGroupStatus struct {
	Phase PodGroupPhase `json:"phase,omitempty"`
	// Who owns the members, namespace/name.
	OccupiedBy string `json:"occupiedBy,omitempty"`
	// How many members have a node.
	Scheduled int32 `json:"scheduled,omitempty"`
	Running   int32 `json:"running,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// When the gang was first handed to the scheduler.
	ScheduleStartTime *metav1.Time `json:"scheduleStartTime,omitempty"`
}
