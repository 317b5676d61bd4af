// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// noDevices is the value of the annotation device-allocated on a pod without devices.
const noDevices = "{}"

// binder writes Bindings to the API server.
type binder struct {
	kube kubernetes.Interface
	pods corelisters.PodLister
}

var _ binding.Binder = (*binder)(nil)

// Bind writes the member's Binding. The pod's UID is a precondition, so that a new pod with the same name is not bound.
// Staged annotations are merged into the pod in the same write.
func (b *binder) Bind(ctx context.Context, m *binding.Member) error {
	pod, annotations := m.Task.Pod, m.StagedAnnotations()
	if _, decided := annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]; !decided && b.claimsDevices(pod) {
		annotations[schedulingv1alpha1.DeviceAllocatedAnnotation] = noDevices
	}
	return b.kube.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: m.Node},
	}, metav1.CreateOptions{})
}

// claimsDevices reports whether the pod has, or had when it was placed, the annotation that lists a pod's devices for
// node agents. It is called for pods for which no plugin chose devices, so a user wrote the annotation. The admission
// policy rejects adding the annotation after the creation of the pod.
func (b *binder) claimsDevices(pod *v1.Pod) bool {
	if _, claims := pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]; claims {
		return true
	}
	live, err := b.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return false
	}
	_, claims := live.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
	return claims
}

// GetBinding reads the member's pod from the API server. A pod without any of the staged annotations was bound by another
// client; a single one may have been changed after the member's own Binding.
func (b *binder) GetBinding(ctx context.Context, m *binding.Member) (binding.PodBinding, error) {
	pod := m.Task.Pod
	live, err := b.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return binding.PodBinding{Gone: true}, nil
	}
	if err != nil {
		return binding.PodBinding{}, err
	}
	if live.UID != pod.UID {
		return binding.PodBinding{Gone: true}, nil
	}
	bound := live.Spec.NodeName != ""
	return binding.PodBinding{
		Node: live.Spec.NodeName, Foreign: bound && lacksAll(live, m.StagedAnnotations()), Gone: !bound && live.DeletionTimestamp != nil,
	}, nil
}

// lacksAll reports whether the pod has none of the staged annotations, of which there is at least one.
func lacksAll(pod *v1.Pod, staged map[string]string) bool {
	for key, value := range staged {
		if has, ok := pod.Annotations[key]; ok && has == value {
			return false
		}
	}
	return len(staged) > 0
}
