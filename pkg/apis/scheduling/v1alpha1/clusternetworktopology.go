// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultTopologyName is the name of the one ClusterNetworkTopology that is read.
const DefaultTopologyName = "default"

// ClusterNetworkTopology defines the layers of the cluster's network by labels of nodes: which nodes share a switch, and which switches
// share the next wider one.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
type ClusterNetworkTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterNetworkTopologySpec `json:"spec,omitempty"`
	// Ignored: the domains follow from the spec and the labels of nodes.
	Status ClusterNetworkTopologyStatus `json:"status,omitempty"`
}

// ClusterNetworkTopologyList is a list of ClusterNetworkTopology objects.
//
// +kubebuilder:object:root=true
type ClusterNetworkTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterNetworkTopology `json:"items"`
}

// ClusterNetworkTopologySpec lists the layers, in any order.
type ClusterNetworkTopologySpec struct {
	NetworkTopologySpec []NetworkTopologySpec `json:"networkTopologySpec"`
}

// TopologyLayer names a layer, such as SpineLayer.
type TopologyLayer string

// The layers that every cluster has.
const (
	// ClusterTopologyLayer contains all others; its only domain is the cluster.
	ClusterTopologyLayer TopologyLayer = "ClusterTopologyLayer"
	// NodeTopologyLayer is the lowest; its domains are the nodes.
	NodeTopologyLayer TopologyLayer = "NodeTopologyLayer"
)

// NetworkTopologySpec is one layer.
type NetworkTopologySpec struct {
	// Name of the layer, unique in the object.
	TopologyLayer TopologyLayer `json:"topologyLayer"`
	// Name of the next wider layer; absent for the widest.
	//
	// +optional
	ParentTopologyLayer TopologyLayer `json:"parentTopologyLayer,omitempty"`
	// Keys of node labels. The value of the first one that a node has names its domain in the layer.
	//
	// +optional
	LabelKey []string `json:"labelKey,omitempty"`
}

// ClusterNetworkTopologyStatus lists the domains.
type ClusterNetworkTopologyStatus struct {
	// +optional
	DetailStatus []*ClusterNetworkTopologyDetailStatus `json:"detailStatus,omitempty"`
}

// ClusterNetworkTopologyDetailStatus is one domain.
type ClusterNetworkTopologyDetailStatus struct {
	TopologyInfo TopologyInfo `json:"topologyInfo"`
	// Domain that contains this one; absent for the cluster.
	//
	// +optional
	ParentTopologyInfo *TopologyInfo `json:"parentTopologyInfo,omitempty"`
	// Layer of the domains directly in this one.
	//
	// +optional
	ChildTopologyLayer TopologyLayer `json:"childTopologyLayer,omitempty"`
	// Names of the domains directly in this one, unless they are nodes.
	//
	// +optional
	ChildTopologyNames []string `json:"childTopologyNames,omitempty"`
	// Number of nodes in the domain.
	NodeNum int `json:"nodeNum"`
}

// TopologyInfo names a domain.
type TopologyInfo struct {
	TopologyLayer TopologyLayer `json:"topologyLayer"`
	TopologyName  string        `json:"topologyName"`
}
