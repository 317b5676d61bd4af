// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	feature "k8s.io/apiserver/pkg/util/feature"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/extended"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// dependsOnOtherNodes reports whether the Kubernetes predicates' filter result on the pod depends on placements on
// other nodes. That is so if the pod has required pod affinity or anti-affinity of its own, or hard topology spread. If
// the conf enables their checks, device claims (KEP-4381) and unbound volume claims count, too.
//
// Required anti-affinity of other pods against the pod does not count. For pods that were on nodes before the session,
// the predicates compute it once for each task. For pods placed in the session, sessionAntiAffinity checks it.
func dependsOnOtherNodes(ssn *framework.Session, pod *v1.Pod) bool {
	if len(k8sframework.GetPodAffinityTerms(pod.Spec.Affinity)) > 0 || len(k8sframework.GetPodAntiAffinityTerms(pod.Spec.Affinity)) > 0 {
		return true
	}
	hard := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule }
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, hard) {
		return true
	}
	return len(pod.Spec.ResourceClaims) > 0 && looksFor(ssn, predicates.DynamicResourceAllocationEnable) ||
		claimsWait(ssn, pod) && looksFor(ssn, predicates.VolumeBindingEnable)
}

// claimsWait reports whether the pod may have claims that are not bound to a volume yet.
func claimsWait(ssn *framework.Session, pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool {
		return volume.Ephemeral != nil ||
			volume.PersistentVolumeClaim != nil && !claimBound(ssn, pod.Namespace, volume.PersistentVolumeClaim.ClaimName)
	})
}

// looksFor reports whether the conf enables a check of claims by the predicates plugin; claims is the plugin's argument
// that enables it. Another plugin that checks such claims has a filter result of its own.
func looksFor(ssn *framework.Session, claims string) bool {
	finds := true
	if option, found := ssn.PluginOption(predicates.PluginName); found {
		framework.Arguments(option.Arguments).GetBool(&finds, claims)
	}
	return finds
}

// deviceClassesByResource returns the names of device classes, by extended resource. Pods that request such a resource
// get devices of the class (KEP-5004).
func deviceClassesByResource(ssn *framework.Session) map[v1.ResourceName]string {
	if manager := ssn.SharedDRAManager(); manager != nil && feature.DefaultFeatureGate.Enabled(features.DRAExtendedResource) {
		classes, err := extended.DeviceClassMapping(manager)
		if err != nil {
			klog.ErrorS(err, "Reading device classes failed, treating extended resources as not backed by DRA")
		}
		return classes
	}
	return nil
}

// asksFor reports whether the pod requests an extended resource that has a device class.
func asksFor(pod *v1.Pod, classes map[v1.ResourceName]string) bool {
	if len(classes) == 0 {
		return false
	}
	for name, amount := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		if _, ok := classes[name]; ok && !amount.IsZero() {
			return true
		}
	}
	return false
}

// prefersByOtherNodes reports whether the pod's preferences may depend on pods on other nodes.
func prefersByOtherNodes(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0
}

// volumesScored reports whether the predicates plugin scores nodes for the pod by the volumes that it would get there
// (KEP-4049, an alpha feature of Kubernetes).
func volumesScored(pod *v1.Pod) bool {
	return framework.HasClaims(pod) && feature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring)
}

// claimBound reports whether the named claim is bound to its volume; false if the claim cannot be read.
func claimBound(ssn *framework.Session, namespace, name string) bool {
	factory := ssn.InformerFactory()
	if factory == nil {
		return false
	}
	claim, err := factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	return err == nil && claim.Spec.VolumeName != "" && claim.Status.Phase == v1.ClaimBound
}
