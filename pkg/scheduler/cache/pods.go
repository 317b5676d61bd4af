// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// podsByNode is the index of the watch's pods by the node they are on, podsByClaim by the claims of their volumes, and podsByDeviceClaim by
// those of their devices.
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
		logger().Error(err, "Indexing pods by node and claim") // they are already
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

// PodsOn returns the pods on the node that have not ended, as the watch shows them.
func (c *Cache) PodsOn(node string) []*v1.Pod {
	shown, err := c.sources.kube.Core().V1().Pods().Informer().GetIndexer().ByIndex(podsByNode, node)
	if err != nil {
		logger().Error(err, "Listing the pods on a node", "node", node)
	}
	pods := make([]*v1.Pod, 0, len(shown))
	for _, object := range shown {
		if pod, ok := object.(*v1.Pod); ok && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// watched is the pod as the watch shows it now; nil when it is gone, or another one has its name. It may be ahead of what
// upstream's cache has been told.
func (c *Cache) watched(pod *v1.Pod) *v1.Pod {
	latest, err := c.sources.kube.Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID {
		return nil
	}
	return latest
}
