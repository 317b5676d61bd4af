// SPDX-License-Identifier: Apache-2.0

package testing

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// PodGroupBuilder builds a PodGroup.
type PodGroupBuilder struct{ podGroup v1beta1.PodGroup }

// MakePodGroup starts a PodGroup in Namespace and Queue with minMember 1 and phase Inqueue.
func MakePodGroup() *PodGroupBuilder {
	return &PodGroupBuilder{v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Annotations: map[string]string{}, CreationTimestamp: Created},
		Spec:       v1beta1.PodGroupSpec{MinMember: 1, Queue: Queue},
		Status:     v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue},
	}}
}

// Namespace puts the PodGroup into the namespace.
func (b *PodGroupBuilder) Namespace(namespace string) *PodGroupBuilder {
	b.podGroup.Namespace = namespace
	return b
}

// Name names the PodGroup.
func (b *PodGroupBuilder) Name(name string) *PodGroupBuilder { b.podGroup.Name = name; return b }

// MinMember sets how many members the gang needs.
func (b *PodGroupBuilder) MinMember(members int32) *PodGroupBuilder {
	b.podGroup.Spec.MinMember = members
	return b
}

// OwnedBy sets the controller of the PodGroup to an object named "owner" of the given version and kind.
func (b *PodGroupBuilder) OwnedBy(apiVersion, kind string) *PodGroupBuilder {
	controller := true
	b.podGroup.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: &controller}}
	return b
}

// OwnedByPod makes the PodGroup look as if Volcano's controller had created it for the named pod. Such a pod has no
// controller of its own.
func (b *PodGroupBuilder) OwnedByPod(name string) *PodGroupBuilder {
	b.OwnedBy("v1", "Pod")
	b.podGroup.OwnerReferences[0].Name, b.podGroup.OwnerReferences[0].UID = name, types.UID(Namespace+"-"+name)
	return b
}

// MinTaskMember sets how many members of the task role the gang needs.
func (b *PodGroupBuilder) MinTaskMember(role string, members int32) *PodGroupBuilder {
	if b.podGroup.Spec.MinTaskMember == nil {
		b.podGroup.Spec.MinTaskMember = map[string]int32{}
	}
	b.podGroup.Spec.MinTaskMember[role] = members
	return b
}

// SubGroups adds a policy: pods with the same value of the label are a sub-group of the given size, and the gang needs
// the given number of sub-groups.
func (b *PodGroupBuilder) SubGroups(policy, label string, needed, size int32) *PodGroupBuilder {
	b.podGroup.Spec.SubGroupPolicy = append(b.podGroup.Spec.SubGroupPolicy, v1beta1.SubGroupPolicySpec{
		Name: policy, MinSubGroups: &needed, SubGroupSize: &size, MatchLabelKeys: []string{label},
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpExists},
		}},
	})
	return b
}

// Queue sets the queue.
func (b *PodGroupBuilder) Queue(queue string) *PodGroupBuilder {
	b.podGroup.Spec.Queue = queue
	return b
}

// Annotation sets an annotation.
func (b *PodGroupBuilder) Annotation(key, value string) *PodGroupBuilder {
	b.podGroup.Annotations[key] = value
	return b
}

// PriorityClass sets the class that determines the gang's priority.
func (b *PodGroupBuilder) PriorityClass(name string) *PodGroupBuilder {
	b.podGroup.Spec.PriorityClassName = name
	return b
}

// Topology restricts the gang to one HyperNode whose tier is at most highestTier. mode says whether the restriction is
// required or preferred.
func (b *PodGroupBuilder) Topology(mode v1beta1.NetworkTopologyMode, highestTier int) *PodGroupBuilder {
	b.podGroup.Spec.NetworkTopology = topology(mode, highestTier)
	return b
}

// TopologyByName is like Topology, but gives the highest tier by its name.
func (b *PodGroupBuilder) TopologyByName(mode v1beta1.NetworkTopologyMode, highestTierName string) *PodGroupBuilder {
	b.podGroup.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: mode, HighestTierName: highestTierName}
	return b
}

// SubGroupTopology restricts each sub-group of the last added policy to one HyperNode whose tier is at most
// highestTier.
func (b *PodGroupBuilder) SubGroupTopology(mode v1beta1.NetworkTopologyMode, highestTier int) *PodGroupBuilder {
	b.podGroup.Spec.SubGroupPolicy[len(b.podGroup.Spec.SubGroupPolicy)-1].NetworkTopology = topology(mode, highestTier)
	return b
}

// SubGroupTopologyByName is like SubGroupTopology, but gives the highest tier by its name.
func (b *PodGroupBuilder) SubGroupTopologyByName(mode v1beta1.NetworkTopologyMode, highestTierName string) *PodGroupBuilder {
	b.podGroup.Spec.SubGroupPolicy[len(b.podGroup.Spec.SubGroupPolicy)-1].NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: mode, HighestTierName: highestTierName}
	return b
}

func topology(mode v1beta1.NetworkTopologyMode, highestTier int) *v1beta1.NetworkTopologySpec {
	return &v1beta1.NetworkTopologySpec{Mode: mode, HighestTierAllowed: &highestTier}
}

// MinResources sets the resources that the PodGroup needs to be admitted.
func (b *PodGroupBuilder) MinResources(resources Resources) *PodGroupBuilder {
	list := resources.list()
	b.podGroup.Spec.MinResources = &list
	return b
}

// Phase sets the phase.
func (b *PodGroupBuilder) Phase(phase v1beta1.PodGroupPhase) *PodGroupBuilder {
	b.podGroup.Status.Phase = phase
	return b
}

// Obj returns a copy of the PodGroup; the builder can be used further.
func (b *PodGroupBuilder) Obj() *v1beta1.PodGroup {
	podGroup := b.podGroup.DeepCopy()
	podGroup.UID = types.UID(podGroup.Namespace + "-" + podGroup.Name)
	return podGroup
}

// NodeBuilder builds a node.
type NodeBuilder struct{ node v1.Node }

// MakeNode starts a node that is ready and has 8 cpu, 16Gi of memory and room for 110 pods.
func MakeNode() *NodeBuilder {
	b := &NodeBuilder{v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, CreationTimestamp: Created},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}}
	return b.Capacity(Resources{"cpu": "8", "memory": "16Gi", "pods": "110"})
}

// Name names the node.
func (b *NodeBuilder) Name(name string) *NodeBuilder {
	b.node.Name = name
	return b.Label(v1.LabelHostname, name)
}

// Capacity sets the node's resources.
func (b *NodeBuilder) Capacity(capacity Resources) *NodeBuilder {
	b.node.Status.Capacity, b.node.Status.Allocatable = capacity.list(), capacity.list()
	return b
}

// Label sets a label.
func (b *NodeBuilder) Label(key, value string) *NodeBuilder { b.node.Labels[key] = value; return b }

// Annotation sets an annotation.
func (b *NodeBuilder) Annotation(key, value string) *NodeBuilder {
	if b.node.Annotations == nil {
		b.node.Annotations = map[string]string{}
	}
	b.node.Annotations[key] = value
	return b
}

// Taint adds a taint.
func (b *NodeBuilder) Taint(key string, effect v1.TaintEffect) *NodeBuilder {
	b.node.Spec.Taints = append(b.node.Spec.Taints, v1.Taint{Key: key, Effect: effect})
	return b
}

// Cordon makes the node unschedulable.
func (b *NodeBuilder) Cordon() *NodeBuilder { b.node.Spec.Unschedulable = true; return b }

// Obj returns a copy of the node; the builder can be used further.
func (b *NodeBuilder) Obj() *v1.Node {
	node := b.node.DeepCopy()
	node.UID = types.UID(node.Name)
	return node
}

// QueueBuilder builds a queue.
type QueueBuilder struct{ queue v1beta1.Queue }

// MakeQueue starts a queue that is open and has weight 1.
func MakeQueue() *QueueBuilder {
	return &QueueBuilder{v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: Created},
		Spec:       v1beta1.QueueSpec{Weight: 1},
		Status:     v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}}
}

// Name names the queue.
func (b *QueueBuilder) Name(name string) *QueueBuilder { b.queue.Name = name; return b }

// Weight sets the queue's weight.
func (b *QueueBuilder) Weight(weight int32) *QueueBuilder { b.queue.Spec.Weight = weight; return b }

// State sets the queue's state, such as Open or Closed.
func (b *QueueBuilder) State(state v1beta1.QueueState) *QueueBuilder {
	b.queue.Status.State = state
	return b
}

// Capability limits the resources that the queue's pods may hold.
func (b *QueueBuilder) Capability(capability Resources) *QueueBuilder {
	b.queue.Spec.Capability = capability.list()
	return b
}

// Deserved sets the resources that the queue deserves.
func (b *QueueBuilder) Deserved(deserved Resources) *QueueBuilder {
	b.queue.Spec.Deserved = deserved.list()
	return b
}

// Obj returns a copy of the queue; the builder can be used further.
func (b *QueueBuilder) Obj() *v1beta1.Queue {
	queue := b.queue.DeepCopy()
	queue.UID = types.UID(queue.Name)
	return queue
}
