// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// A tenant may resize a pending pod (subresource pods/resize), also while a transaction binds it. The books then count
// the requests for which the session placed the pod: only these were compared with the node and the queue. The
// transaction must not bind a pod that requests more now (Pods.Grown), because the kubelet admits the pod by its spec.

// reserved returns a copy of the pod with the requests that the transaction has reserved.
func (h *hold) reserved(pod *v1.Pod) *v1.Pod {
	reserved := *pod
	reserved.Spec.InitContainers, reserved.Spec.Containers = h.pod.Spec.InitContainers, h.pod.Spec.Containers
	return &reserved
}

// Grown returns an error if a transaction holds the pod and the pod now requests more than the transaction has
// reserved. It also returns the gang of the transaction.
func (p *Pods) Grown(pod *v1.Pod) (api.JobID, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	r := p.records[api.PodKey(pod)]
	if r == nil || r.hold == nil || r.hold.uid != pod.UID || pod.Spec.NodeName != "" {
		return "", nil
	}
	growth := growth(r.hold.pod, pod, "reserved")
	if growth == "" {
		return "", nil
	}
	return r.hold.gang, fmt.Errorf("pod %s/%s was resized before it was bound: %s; it is placed again with its new requests", pod.Namespace, pod.Name, growth)
}

// growth lists the resources of which the pod requests more now than before; empty if there are none. word describes
// the former amounts.
func growth(before, now *v1.Pod, word string) string {
	former, requested := api.GetPodResourceRequest(before), api.GetPodResourceRequest(now)
	if ok, grown := requested.LessEqualWithResourcesName(former, api.Zero); !ok {
		return amounts(grown, requested, former, word)
	}
	return ""
}
