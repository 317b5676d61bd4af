// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group of Koordinator's PodGroups.
	GroupName = "scheduling.sigs.k8s.io"
	// PluginsGroupName is the API group of scheduler-plugins' PodGroups.
	PluginsGroupName = "scheduling.x-k8s.io"
)

var (
	// SchemeGroupVersion is the group and version of the types in this package.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	// PluginsGroupVersion is the group and version of scheduler-plugins' PodGroups, which are read as the types in this
	// package.
	PluginsGroupVersion = schema.GroupVersion{Group: PluginsGroupName, Version: "v1alpha1"}
)

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types to a scheme, in both groups.
var AddToScheme = schemeBuilder.AddToScheme

// Resource returns the resource with that name in group GroupName.
func Resource(name string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(name).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	for _, version := range []schema.GroupVersion{SchemeGroupVersion, PluginsGroupVersion} {
		scheme.AddKnownTypes(version, &PodGroup{}, &PodGroupList{})
		metav1.AddToGroupVersion(scheme, version)
	}
	return nil
}
