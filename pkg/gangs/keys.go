// SPDX-License-Identifier: Apache-2.0

package gangs

const (
	prefix = "gang.scheduling.koordinator.sh/"

	// NameAnnotation is the name of a pod's gang.
	NameAnnotation = prefix + "name"
	// MinAvailableAnnotation is the gang's minimum, on its pods.
	MinAvailableAnnotation = prefix + "min-available"
	// TotalNumberAnnotation is the total number of the gang's members, at least its minimum.
	TotalNumberAnnotation = prefix + "total-number"
	// ModeAnnotation is the gang's Mode.
	ModeAnnotation = prefix + "mode"
	// WaitingTimeAnnotation is how long the gang may wait before it returns to Pending, such as 90s.
	WaitingTimeAnnotation = prefix + "waiting-time"
	// GroupsAnnotation lists the gangs of the group, including this one: a JSON list of "namespace/name".
	GroupsAnnotation = prefix + "groups"
	// MatchPolicyAnnotation is the gang's MatchPolicy.
	MatchPolicyAnnotation = prefix + "match-policy"
	// TopologyAnnotation holds the rules for gathering the gang in the network's topology.
	TopologyAnnotation = prefix + "network-topology-spec"
	// TopologyIndexAnnotation is the rank of a member.
	TopologyIndexAnnotation = prefix + "network-topology-index"
	// TopologySelectorAnnotation, on pods, selects pods of the same namespace that prefer to be near each other.
	TopologySelectorAnnotation = "scheduling.koordinator.sh/network-topology-selector"

	// PodGroupLabel is the name of a pod's PodGroup of scheduling.sigs.k8s.io.
	PodGroupLabel = "pod-group.scheduling.sigs.k8s.io"
	// OldNameLabel and OldMinLabel are the former names of NameAnnotation and MinAvailableAnnotation.
	OldNameLabel = PodGroupLabel + "/name"
	OldMinLabel  = PodGroupLabel + "/min-available"
	// MatchPolicyAlias is an alternative name of MatchPolicyAnnotation.
	MatchPolicyAlias = PodGroupLabel + "/match-policy"
)

// The binding info: the group with which a pod was bound, and the number of members in that bind. It is written with
// the Binding, under both prefixes.
const (
	BindGroupAnnotation    = "internal.scheduling.koordinator.sh/bind-gang-group-id"
	BindMembersAnnotation  = "internal.scheduling.koordinator.sh/bind-gang-member-count"
	OldBindGroupAnnotation = "scheduling.koordinator.sh/bind-gang-group-id"
	// OldBindMembersAnnotation lacks the "internal" prefix. Former releases of Koordinator wrote it.
	OldBindMembersAnnotation = "scheduling.koordinator.sh/bind-gang-member-count"
)

// SourceAnnotation marks a Volcano PodGroup as created by the gang controller. Its value is the source: "annotations"
// of pods, or the API group of the user's PodGroup.
const SourceAnnotation = "coscheduling.volcano-prebind.io/source"

// Plugin is the name of the scheduler's plugin that reads settings.
const Plugin = "coscheduling"

// TimeLimitCondition is the type of the condition of a PodGroup whose gang was admitted, or returned to Pending at the
// end of its waiting time. In the second case its reason is TimedOut.
const (
	TimeLimitCondition = "GangTimeLimit"
	TimedOut           = "GangTimedOut"
)

// WaitingForGroup is the reason why a gang waits if a gang of its group does not exist. InvalidGroup is the reason if
// the settings of the group contradict each other.
const (
	WaitingForGroup = "WaitingForGroup"
	InvalidGroup    = "InvalidGangGroup"
)

// SatisfiedCondition is the type of the condition of a PodGroup whose gang reached its minimum once.
const SatisfiedCondition = "GangSatisfied"

// WholeCondition is the type of the condition of a PodGroup with another match policy whose gang has reached its
// minimum once. Its reason is WholeOnlyWaiting if running members never count.
const (
	WholeCondition   = "GangWhole"
	WholeOnlyWaiting = "OnlyWaiting"
)
