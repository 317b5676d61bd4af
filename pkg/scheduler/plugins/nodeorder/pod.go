// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// gpu is the resource that balancedResource balances besides CPU and memory, like upstream.
const gpu v1.ResourceName = "nvidia.com/gpu"

// pod holds the data of a pod that its scores depend on. The data is computed once in a session.
type pod struct {
	*v1.Pod

	// cpu (in millicores), memory (in bytes) and gpus are the pod's requests.
	cpu, memory, gpus int64
	// cpuAtLeast and memoryAtLeast are the pod's requests, with Kubernetes' default requests for containers without
	// requests.
	cpuAtLeast, memoryAtLeast int64

	// preferred has the preferred node affinity terms; nil if the pod has none. preferredErr is the error if these
	// terms cannot be parsed.
	preferred    *nodeaffinity.PreferredSchedulingTerms
	preferredErr error

	// images are the images of all containers, with their tags. An image that several containers use is listed
	// several times, because it counts for each container.
	images []string

	// prefersPods reports whether the pod has preferred pod affinity or anti-affinity. malformedAffinity reports
	// whether the pod has only required pod affinity or anti-affinity, and it cannot be parsed. Upstream returns an
	// error for such a pod.
	prefersPods, malformedAffinity bool

	// spread is how topology spread affects the pod's scores. It is computed when it is first needed.
	spread podSpread
}

func newPod(p *v1.Pod) *pod {
	out := &pod{Pod: p}
	out.setRequests()
	out.setAffinity()
	out.setImages()
	return out
}

// setRequests sets the pod's requests from its containers. It ignores pod-level resources, as upstream does: upstream
// does not pass their feature gate on to Kubernetes' plugins.
func (p *pod) setRequests() {
	requests := podresources.PodRequests(p.Pod, podresources.PodResourcesOptions{SkipPodLevelResources: true})
	p.cpu, p.memory = requests.Cpu().MilliValue(), requests.Memory().Value()
	gpus := requests[gpu]
	p.gpus = gpus.Value()
	if p.requestsAll() {
		p.cpuAtLeast, p.memoryAtLeast = p.cpu, p.memory
		return
	}
	atLeast := podresources.PodRequests(p.Pod, podresources.PodResourcesOptions{
		SkipPodLevelResources: true,
		NonMissingContainerRequests: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(schedutil.DefaultMilliCPURequest, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(schedutil.DefaultMemoryRequest, resource.DecimalSI),
		},
	})
	p.cpuAtLeast, p.memoryAtLeast = atLeast.Cpu().MilliValue(), atLeast.Memory().Value()
}

// requestsAll reports whether each container requests both CPU and memory.
func (p *pod) requestsAll() bool {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			requests := containers[i].Resources.Requests
			if _, ok := requests[v1.ResourceCPU]; !ok {
				return false
			}
			if _, ok := requests[v1.ResourceMemory]; !ok {
				return false
			}
		}
	}
	return true
}

func (p *pod) setAffinity() {
	affinity := p.Spec.Affinity
	if affinity == nil {
		return
	}
	if node := affinity.NodeAffinity; node != nil && node.PreferredDuringSchedulingIgnoredDuringExecution != nil {
		p.preferred, p.preferredErr = nodeaffinity.NewPreferredSchedulingTerms(node.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
		return
	}
	if p.prefersPods = prefersPods(p.Pod); p.prefersPods {
		return // the terms are parsed only if the pod is scored: a pod may have hundreds
	}
	_, err := k8sframework.NewPodInfo(p.Pod)
	p.malformedAffinity = err != nil
}

// prefersPods reports whether the pod has preferred affinity or anti-affinity to pods.
func prefersPods(p *v1.Pod) bool {
	affinity := p.Spec.Affinity
	if affinity == nil {
		return false
	}
	towards, away := affinity.PodAffinity, affinity.PodAntiAffinity
	return towards != nil && len(towards.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		away != nil && len(away.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// setImages sets the names of the pod's images as nodes list them. An image without a tag gets the tag "latest".
func (p *pod) setImages() {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			image := containers[i].Image
			if strings.LastIndexByte(image, ':') <= strings.LastIndexByte(image, '/') {
				image += ":latest"
			}
			p.images = append(p.images, image)
		}
	}
}
