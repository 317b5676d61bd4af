// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestQuantitiesAreTrimmed checks that each quantity of an object is limited. If Kubernetes adds up several lists, such
// as the requests of containers, the limit of each is a part of the total limit. Quantities within the limits are
// unchanged.
func TestQuantitiesAreTrimmed(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), "example.com/fits": resource.MustParse("7")}
	}
	both := func(l v1.ResourceList) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: l, Limits: l.DeepCopy()}
	}
	pod := func(container, own v1.ResourceList) *v1.Pod {
		pod := schedtest.MakePod().Name("p").Obj()
		pod.Spec.Containers = []v1.Container{{Resources: both(container)}, {Resources: both(container)}}
		pod.Spec.InitContainers = []v1.Container{{Resources: both(container)}, {Resources: both(container)}}
		pod.Spec.Overhead = container
		resources, status := both(own), both(container)
		pod.Spec.Resources = &resources
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{AllocatedResources: container, Resources: &status}, {AllocatedResources: container}}
		return pod
	}
	node := func(l v1.ResourceList) *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{Capacity: l, Allocatable: l.DeepCopy()}}
	}
	fits := list("1", "1Gi")
	tests := map[string]struct{ object, want any }{
		"a pod within the bounds":  {pod(fits, fits), pod(fits, fits)},
		"a pod at the bounds":      {pod(list("16e14", "16e17"), list("4e15", "4e18")), pod(list("16e14", "16e17"), list("4e15", "4e18"))},
		"a pod beyond them":        {pod(list("1600000000000001", "1600000000000000001"), list("4000000000000001", "4000000000000000001")), pod(list("16e14", "16e17"), list("4e15", "4e18"))},
		"a pod below 0":            {pod(list("-1", "1Gi"), list("1", "-1Gi")), pod(list("0", "1Gi"), list("1", "0"))},
		"a node within the bounds": {node(fits), node(fits)},
		"a node at the bounds":     {node(list("8e15", "8e18")), node(list("8e15", "8e18"))},
		"a node beyond them":       {node(list("8000000000000001", "8000000000000000001")), node(list("8e15", "8e18"))},
		"a node below 0":           {node(list("-1", "-1")), node(list("0", "0"))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Trimmed(tt.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInformersTrimAndCount checks that each informer trims and counts each object.
func TestInformersTrimAndCount(t *testing.T) {
	owned := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "ns", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	}
	client := fake.NewClientset(&v1.Pod{ObjectMeta: owned("p")}, &v1.Node{ObjectMeta: owned("n")})
	core := informers.NewSharedInformerFactory(client, time.Hour)
	pods, nodes := core.Core().V1().Pods().Informer(), core.Core().V1().Nodes().Informer()
	counted := make(chan string, 10)
	Trim(func(object any) {
		switch object := object.(type) {
		case *v1.Pod:
			counted <- object.Name
		case *v1.Node:
			counted <- object.Name
		}
	}, pods, nodes)

	core.Start(t.Context().Done())
	core.WaitForCacheSync(t.Context().Done())
	t.Cleanup(core.Shutdown)

	names := map[string]bool{}
	for len(counted) > 0 {
		names[<-counted] = true
	}
	if diff := cmp.Diff(map[string]bool{"p": true, "n": true}, names); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	for _, object := range append(pods.GetStore().List(), nodes.GetStore().List()...) {
		if kept := object.(metav1.Object); len(kept.GetManagedFields()) > 0 {
			t.Errorf("the informer keeps the managed fields of %s", kept.GetName())
		}
	}
}
