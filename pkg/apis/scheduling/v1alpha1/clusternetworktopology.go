// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultTopologyName is the name of the one ClusterNetworkTopology that is read.
const DefaultTopologyName = "default"

// ClusterNetworkTopology says by which labels of nodes the layers of the cluster's network are told: which nodes share a switch, and
// which switches share the next wider one.
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
	// Nobody reads or writes it here: what the domains are follows from the spec and the nodes' labels.
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
	// ClusterTopologyLayer is around all others; its one domain is the cluster.
	ClusterTopologyLayer TopologyLayer = "ClusterTopologyLayer"
	// NodeTopologyLayer is within all others; its domains are the nodes.
	NodeTopologyLayer TopologyLayer = "NodeTopologyLayer"
)

// NetworkTopologySpec is one layer.
type NetworkTopologySpec struct {
	// Its name, unique in the object.
	TopologyLayer TopologyLayer `json:"topologyLayer"`
	// The next wider layer; absent for the widest.
	//
	// +optional
	ParentTopologyLayer TopologyLayer `json:"parentTopologyLayer,omitempty"`
	// The labels of nodes whose value names the node's domain in the layer: the first of them that a node has.
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
	// The domain around it; absent for the cluster.
	//
	// +optional
	ParentTopologyInfo *TopologyInfo `json:"parentTopologyInfo,omitempty"`
	// The layer of the domains right in it.
	//
	// +optional
	ChildTopologyLayer TopologyLayer `json:"childTopologyLayer,omitempty"`
	// The names of these, unless they are nodes.
	//
	// +optional
	ChildTopologyNames []string `json:"childTopologyNames,omitempty"`
	// How many nodes lie in it.
	NodeNum int `json:"nodeNum"`
}

// TopologyInfo names a domain.
type TopologyInfo struct {
	TopologyLayer TopologyLayer `json:"topologyLayer"`
	TopologyName  string        `json:"topologyName"`
}
