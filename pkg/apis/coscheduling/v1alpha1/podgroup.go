// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup defines a gang. Pods belong to it by the label pod-group.scheduling.sigs.k8s.io. It has no status subresource: the status is
// written with the object.
//
// +genclient
// +genclient:noStatus
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, for users of Koordinator"
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

// PodGroupSpec defines the gang.
type PodGroupSpec struct {
	// Number of members that must be scheduled together. A value below 1 counts as 1.
	MinMember int32 `json:"minMember,omitempty"`
	// Ignored: the requests of the pods count.
	MinResources v1.ResourceList `json:"minResources,omitempty"`
	// How long the gang may wait for its members and for resources before it returns to Pending, in seconds.
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupPhase is the progress of the gang.
type PodGroupPhase string

// The phases of a gang.
const (
	// PodGroupPending: fewer members than the minimum exist, and none has a node.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupPreScheduling: the minimum of members exists, but is not in the gang's Volcano PodGroup yet, and no
	// member has a node.
	PodGroupPreScheduling PodGroupPhase = "PreScheduling"
	// PodGroupScheduling: fewer members than the minimum have a node. Some have one, or the minimum is in the Volcano
	// PodGroup.
	PodGroupScheduling PodGroupPhase = "Scheduling"
	// PodGroupScheduled: as many members as the minimum, or more, have a node.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: as many members as the minimum, or more, run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupFinished: as many members as the minimum, or more, have succeeded.
	PodGroupFinished PodGroupPhase = "Finished"
	// PodGroupFailed: a member has failed, after the minimum ran.
	PodGroupFailed PodGroupPhase = "Failed"
)

// PodGroupStatus is the observed state of the gang.
type PodGroupStatus struct {
	Phase PodGroupPhase `json:"phase,omitempty"`
	// Owners of the members, as namespace/name.
	OccupiedBy string `json:"occupiedBy,omitempty"`
	// Number of members that have a node.
	Scheduled int32 `json:"scheduled,omitempty"`
	Running   int32 `json:"running,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// When the gang was first handed to the scheduler.
	ScheduleStartTime *metav1.Time `json:"scheduleStartTime,omitempty"`
}
