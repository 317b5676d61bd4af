// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// Names of the indexes of the pod informer: pods by node, by PersistentVolumeClaim, and by ResourceClaim.
const (
	podsByNode        = "volcano-prebind/node"
	podsByClaim       = "volcano-prebind/claim"
	podsByDeviceClaim = "volcano-prebind/device-claim"
)

func indexPods(pods cache.SharedIndexInformer, schedulerNames []string) {
	err := pods.AddIndexers(cache.Indexers{
		podsByNode: nodeOf, podsByClaim: claimsOf, podsByDeviceClaim: deviceClaimsOf, report.ForeignPods: foreignTo(schedulerNames),
	})
	if err != nil {
		logger().Error(err, "Adding indexes of pods by node and claim failed") // the informer already has the indexes
	}
}

func nodeOf(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// foreignTo returns an index function for pods of other schedulers, whose schedulerName is not in schedulerNames. It
// indexes these pods by PodGroup if they have no node, have not finished and are not being deleted.
func foreignTo(schedulerNames []string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		pod, ok := object.(*v1.Pod)
		if !ok || pod.Spec.NodeName != "" || slices.Contains(schedulerNames, pod.Spec.SchedulerName) || finished(pod) || pod.DeletionTimestamp != nil {
			return nil, nil
		}
		if group := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]; group != "" {
			return []string{pod.Namespace + "/" + group}, nil
		}
		return nil, nil
	}
}

// claimsOf is an index function. It returns the PersistentVolumeClaims that a pod uses.
func claimsOf(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var claims []string
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			claims = append(claims, pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			claims = append(claims, pod.Namespace+"/"+ephemeral.VolumeClaimName(pod, volume))
		}
	}
	return claims, nil
}

// deviceClaimsOf is an index function. It returns the ResourceClaims that a pod uses. A claim that is not yet created
// from its template is left out.
func deviceClaimsOf(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var claims []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			claims = append(claims, pod.Namespace+"/"+*name)
		}
	}
	return claims, nil
}
