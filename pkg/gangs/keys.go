// SPDX-License-Identifier: Apache-2.0

package gangs

const (
	prefix = "gang.scheduling.koordinator.sh/"

	// NameAnnotation is the name of a pod's gang.
	NameAnnotation = prefix + "name"
	// MinAvailableAnnotation is the minimum of a pod's gang.
	MinAvailableAnnotation = prefix + "min-available"
	// TotalNumberAnnotation is the total number of the gang's members, at least its minimum.
	TotalNumberAnnotation = prefix + "total-number"
	// ModeAnnotation is the gang's Mode.
	ModeAnnotation = prefix + "mode"
	// WaitingTimeAnnotation is how long the gang may wait before it returns to Pending, such as 90s.
	WaitingTimeAnnotation = prefix + "waiting-time"
	// GroupsAnnotation lists the gangs of a gang group, including the gang that has the annotation: a JSON list of
	// "namespace/name".
	GroupsAnnotation = prefix + "groups"
	// MatchPolicyAnnotation is the gang's MatchPolicy.
	MatchPolicyAnnotation = prefix + "match-policy"
	// TopologyAnnotation holds the rules for placing the gang in domains of the network's topology.
	TopologyAnnotation = prefix + "network-topology-spec"
	// TopologyIndexAnnotation is the rank of a member in its gang.
	TopologyIndexAnnotation = prefix + "network-topology-index"
	// TopologySelectorAnnotation, on pods, selects pods of the same namespace that prefer to be near each other.
	TopologySelectorAnnotation = "scheduling.koordinator.sh/network-topology-selector"

	// PodGroupLabel, on a pod, names its PodGroup of the API group scheduling.sigs.k8s.io.
	PodGroupLabel = "pod-group.scheduling.sigs.k8s.io"
	// OldNameLabel and OldMinLabel are older labels with the meaning of NameAnnotation and MinAvailableAnnotation.
	OldNameLabel = PodGroupLabel + "/name"
	OldMinLabel  = PodGroupLabel + "/min-available"
	// MatchPolicyAlias is an alternative name of MatchPolicyAnnotation.
	MatchPolicyAlias = PodGroupLabel + "/match-policy"
)

// Annotations of a bound pod: the gang group that it was bound with, and the number of members that were bound
// together. They are written with the pod's Binding, under the current and the old prefix.
const (
	BindGroupAnnotation    = "internal.scheduling.koordinator.sh/bind-gang-group-id"
	BindMembersAnnotation  = "internal.scheduling.koordinator.sh/bind-gang-member-count"
	OldBindGroupAnnotation = "scheduling.koordinator.sh/bind-gang-group-id"
	// OldBindMembersAnnotation is the name of BindMembersAnnotation in former releases of Koordinator, without the
	// prefix "internal.".
	OldBindMembersAnnotation = "scheduling.koordinator.sh/bind-gang-member-count"
)

// SourceAnnotation marks a Volcano PodGroup as created by the gang controller. Its value is the source: "annotations"
// of pods, or the API group of the user's PodGroup.
const SourceAnnotation = "coscheduling.volcano-prebind.io/source"

// Plugin is the name of the scheduler plugin that reads the settings.
const Plugin = "coscheduling"

// TimeLimitCondition is the type of the condition of a PodGroup whose gang was admitted, or has returned to Pending at
// the end of its waiting time. After a return to Pending, the reason of the condition is TimedOut.
const (
	TimeLimitCondition = "GangTimeLimit"
	TimedOut           = "GangTimedOut"
)

// InvalidSettingsCondition is the type of the condition of a PodGroup with invalid settings. ReservationCondition is the
// type of the condition that reports the node reservation of a gang.
const (
	InvalidSettingsCondition = "InvalidGangSettings"
	ReservationCondition     = "NodeReservation"
)

// WaitingForGroup is the reason that is reported for a gang that waits because a gang of its group does not exist.
// InvalidGroup is the reason that is reported if the settings of a gang's group contradict each other.
const (
	WaitingForGroup = "WaitingForGroup"
	InvalidGroup    = "InvalidGangGroup"
)

// SatisfiedCondition is the type of the condition of a PodGroup whose gang with match policy once-satisfied has reached
// its minimum once.
const SatisfiedCondition = "GangSatisfied"

// WholeCondition is the type of the condition of a PodGroup whose gang has reached its minimum once, for match policies
// other than once-satisfied. The condition has the reason WholeOnlyWaiting if running members never count for the
// minimum.
const (
	WholeCondition   = "GangWhole"
	WholeOnlyWaiting = "OnlyWaiting"
)
