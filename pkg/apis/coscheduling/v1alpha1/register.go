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
	// SchemeGroupVersion is the group and version of the types here.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	// PluginsGroupVersion is the other group and version that are read as the types here.
	PluginsGroupVersion = schema.GroupVersion{Group: PluginsGroupName, Version: "v1alpha1"}
)

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

// Resource returns the resource of that name in the group.
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
