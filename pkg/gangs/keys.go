// SPDX-License-Identifier: Apache-2.0

package gangs

const (
	prefix = "gang.scheduling.koordinator.sh/"

	// NameAnnotation names the gang of a pod.
	NameAnnotation = prefix + "name"
	// MinAvailableAnnotation is the gang's minimum, on its pods.
	MinAvailableAnnotation = prefix + "min-available"
	// TotalNumberAnnotation is how many members the gang has in all, no fewer than its minimum.
	TotalNumberAnnotation = prefix + "total-number"
	// ModeAnnotation is the gang's Mode.
	ModeAnnotation = prefix + "mode"
	// WaitingTimeAnnotation is how long the gang waits before it is sent back, such as 90s.
	WaitingTimeAnnotation = prefix + "waiting-time"
	// GroupsAnnotation lists the gangs of the group, itself included: a JSON list of "namespace/name".
	GroupsAnnotation = prefix + "groups"
	// MatchPolicyAnnotation is the gang's MatchPolicy.
	MatchPolicyAnnotation = prefix + "match-policy"
	// TopologyAnnotation says how the gang is gathered in the network's topology.
	TopologyAnnotation = prefix + "network-topology-spec"
	// TopologyIndexAnnotation is the rank of a member.
	TopologyIndexAnnotation = prefix + "network-topology-index"
	// TopologySelectorAnnotation names, on pods, those that would rather be near each other, in the pods' namespace.
	TopologySelectorAnnotation = "scheduling.koordinator.sh/network-topology-selector"

	// PodGroupLabel names the PodGroup of scheduling.sigs.k8s.io that a pod belongs to.
	PodGroupLabel = "pod-group.scheduling.sigs.k8s.io"
	// OldNameLabel and OldMinLabel are what NameAnnotation and MinAvailableAnnotation were called before.
	OldNameLabel = PodGroupLabel + "/name"
	OldMinLabel  = PodGroupLabel + "/min-available"
	// MatchPolicyAlias is another name of MatchPolicyAnnotation.
	MatchPolicyAlias = PodGroupLabel + "/match-policy"
)

// The binding info: which group a pod was bound with, and how many members that bind had. It travels in the Binding under
// both prefixes.
const (
	BindGroupAnnotation    = "internal.scheduling.koordinator.sh/bind-gang-group-id"
	BindMembersAnnotation  = "internal.scheduling.koordinator.sh/bind-gang-member-count"
	OldBindGroupAnnotation = "scheduling.koordinator.sh/bind-gang-group-id"
	// OldBindMembersAnnotation has no "internal", as the former releases of Koordinator wrote it.
	OldBindMembersAnnotation = "scheduling.koordinator.sh/bind-gang-member-count"
)

// SourceAnnotation on a Volcano PodGroup marks it as made by the gang controller, and has the source: "annotations" of pods, or the
// API group of the user's PodGroup.
const SourceAnnotation = "coscheduling.volcano-prebind.io/source"

// Plugin is the name of the scheduler's plugin that reads settings.
const Plugin = "coscheduling"

// TimeLimitCondition is the type of the condition of a PodGroup whose gang was admitted, or returned to Pending when its waiting time had passed.
// TimedOut is its reason then.
const (
	TimeLimitCondition = "GangTimeLimit"
	TimedOut           = "GangTimedOut"
)

// WaitingForGroup is the reason why a gang waits while not all gangs of its group exist, and InvalidGroup while their settings of the group
// contradict each other.
const (
	WaitingForGroup = "WaitingForGroup"
	InvalidGroup    = "InvalidGangGroup"
)

// SatisfiedCondition is the type of the condition of a PodGroup whose gang reached its minimum once.
const SatisfiedCondition = "GangSatisfied"

// WholeCondition is the type of the condition of a PodGroup whose gang, of another match policy, had its minimum once; its reason is
// WholeOnlyWaiting where those that run never count.
const (
	WholeCondition   = "GangWhole"
	WholeOnlyWaiting = "OnlyWaiting"
)
