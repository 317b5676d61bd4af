// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhateverAPodSaysItCanBeReckonedWith: Kubernetes adds up what a pod asks for from many of its fields, of which whoever may
// write its status writes some.
func TestWhateverAPodSaysItCanBeReckonedWith(t *testing.T) {
	huge := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9e18"), v1.ResourceMemory: resource.MustParse("9e18")}
	always := v1.ContainerRestartPolicyAlways
	tests := map[string]func(pod *v1.Pod){
		"a container's requests": func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests = huge },
		"an init container's requests": func(pod *v1.Pod) {
			pod.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: huge}}}
		},
		"two sidecars' and the container's requests": func(pod *v1.Pod) {
			sidecar := v1.Container{Name: "sidecar", RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: huge}}
			pod.Spec.InitContainers = []v1.Container{sidecar, sidecar}
			pod.Spec.Containers[0].Resources.Requests = huge
		},
		"the overhead": func(pod *v1.Pod) { pod.Spec.Overhead = huge },
		"the pod's own requests and the overhead": func(pod *v1.Pod) {
			pod.Spec.Overhead, pod.Spec.Resources = huge, &v1.ResourceRequirements{Requests: huge}
		},
		"what its containers are said to have been given": func(pod *v1.Pod) { pod.Status.ContainerStatuses[0].AllocatedResources = huge },
		"what its containers are said to ask for":         func(pod *v1.Pod) { pod.Status.ContainerStatuses[0].Resources.Requests = huge },
	}
	for name, says := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p").Req(schedtest.Resources{"cpu": "1"}).Obj()
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Resources: &v1.ResourceRequirements{}}}
			says(pod)
			if _, err := trimmed(pod); err != nil {
				t.Fatal(err)
			}
			asks := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
			if !reckonable(asks) || asks.Cpu().MilliValue() <= 0 {
				t.Errorf("the pod asks for %s cpu and %s bytes, which is beyond what can be reckoned with", asks.Cpu(), asks.Memory())
			}
		})
	}
}
