// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Indexes of the watch's pods: by node, by claims of volumes, and by claims of devices.
const (
	podsByNode        = "volcano-prebind/node"
	podsByClaim       = "volcano-prebind/claim"
	podsByDeviceClaim = "volcano-prebind/device-claim"
)

func indexPods(pods cache.SharedIndexInformer, schedulerNames []string) {
	err := pods.AddIndexers(cache.Indexers{
		podsByNode: nodeOf, podsByClaim: claimsOf, podsByDeviceClaim: deviceClaimsOf, framework.ForeignPods: foreignTo(schedulerNames),
	})
	if err != nil {
		logger().Error(err, "Adding indexes of pods by node and claim failed") // the indexes exist already
	}
}

func nodeOf(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// foreignTo indexes pods that wait for other schedulers than these, by the PodGroup that they name.
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

// claimsOf returns the volume claims of a pod.
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

// deviceClaimsOf returns the claims of a pod's devices that have been created.
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
