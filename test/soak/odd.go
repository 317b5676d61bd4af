// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// manyRoles is the number of minTaskMember roles of the odd PodGroup. It is close to the maximum size of a request.
const manyRoles = 20_000

// oddObjects creates and deletes unusual objects.
type oddObjects struct {
	kube kubernetes.Interface
	vc   vcclient.Interface
}

// makeAndRemove creates the objects. The API server accepts or rejects them, and a scheduler must tolerate them.
// None of them fits any node. They are removed a while later.
func (o oddObjects) makeAndRemove(ctx context.Context, random *rand.Rand) error {
	for _, odd := range []func(context.Context) error{
		o.numbers, o.roles, o.groups, o.pods, o.queues, o.hyperNodes,
	} {
		if err := odd(ctx); err != nil && !refusedForGood(err) && !apierrors.IsAlreadyExists(err) {
			break // The API server cannot be reached.
		}
	}
	pause(ctx, seconds(random, 2, 8))
	return o.remove(ctx)
}

func refusedForGood(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (o oddObjects) group(ctx context.Context, name string, change func(*v1beta1.PodGroup)) error {
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.PodGroupSpec{MinMember: 1}}
	change(group)
	_, err := o.vc.SchedulingV1beta1().PodGroups(oddNamespace).Create(ctx, group, metav1.CreateOptions{})
	if refusedForGood(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// pod creates a pod that requests more than any node has.
func (o oddObjects) pod(ctx context.Context, gang, name string, change func(*corev1.Pod)) error {
	pod := podOf(gang, name, "100")
	change(pod)
	_, err := o.kube.CoreV1().Pods(oddNamespace).Create(ctx, pod, metav1.CreateOptions{})
	if refusedForGood(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// numbers creates PodGroups whose minResources cannot be used in sums.
func (o oddObjects) numbers(ctx context.Context) error {
	for i, number := range []string{"-5", "-1m", "9223372036854775807", "1e18"} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, "nvidia.com/gpu", corev1.ResourcePods} {
			err := o.group(ctx, fmt.Sprintf("number-%d-%d", i, len(name)), func(group *v1beta1.PodGroup) {
				group.Spec.MinResources = &corev1.ResourceList{name: resource.MustParse(number)}
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// roles creates a PodGroup with a large number of roles, and a few pods.
func (o oddObjects) roles(ctx context.Context) error {
	err := o.group(ctx, "roles", func(group *v1beta1.PodGroup) {
		group.Spec.MinTaskMember = map[string]int32{}
		for i := range manyRoles {
			group.Spec.MinTaskMember[fmt.Sprintf("role-%d", i)] = 1
		}
	})
	for i := 0; i < 5 && err == nil; i++ {
		err = o.pod(ctx, "roles", fmt.Sprintf("roles-%d", i), func(*corev1.Pod) {})
	}
	return err
}

// groups creates PodGroups that can never be bound.
func (o oddObjects) groups(ctx context.Context) error {
	for name, change := range map[string]func(*v1beta1.PodGroup){
		"huge":        func(group *v1beta1.PodGroup) { group.Spec.MinMember = 1 << 30 },
		"negative":    func(group *v1beta1.PodGroup) { group.Spec.MinMember = -3 },
		"no-queue":    func(group *v1beta1.PodGroup) { group.Spec.Queue = "nobody-made-it" },
		"no-priority": func(group *v1beta1.PodGroup) { group.Spec.PriorityClassName = "nobody-made-it" },
		"odd-mode": func(group *v1beta1.PodGroup) {
			group.Annotations = map[string]string{
				"ibcluster.volcano-prebind.io/mode": strings.Repeat("x", 100_000), "ibcluster.volcano-prebind.io/nothing": "",
			}
		},
	} {
		if err := o.group(ctx, name, change); err != nil {
			return err
		}
		for i := range 3 {
			if err := o.pod(ctx, name, fmt.Sprintf("%s-%d", name, i), func(*corev1.Pod) {}); err != nil {
				return err
			}
		}
	}
	return nil
}

// pods creates pods that can never be bound.
func (o oddObjects) pods(ctx context.Context) error {
	for name, change := range map[string]func(*corev1.Pod){
		"no-group":  func(*corev1.Pod) {},
		"enormous":  func(pod *corev1.Pod) { request(pod, corev1.ResourceCPU, "9223372036854775807") },
		"no-device": func(pod *corev1.Pod) { request(pod, "example.com/none", "1") },
		"gated":     func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "soak/gate"}} },
		"no-claim": func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "nobody-made-it"},
			}}}
		},
		"no-node": func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "nobody-made-it"}
		},
	} {
		if err := o.pod(ctx, "nobody-made-it", name, change); err != nil {
			return err
		}
	}
	return nil
}

func request(pod *corev1.Pod, name corev1.ResourceName, quantity string) {
	requests := corev1.ResourceList{name: resource.MustParse(quantity)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
}

// queues creates a queue with numbers that make no sense.
func (o oddObjects) queues(ctx context.Context) error {
	negative := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-7")}
	_, err := o.vc.SchedulingV1beta1().Queues().Create(ctx, &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "soak-odd"},
		Spec: v1beta1.QueueSpec{
			Weight: 1, Capability: negative, Deserved: negative,
			Guarantee: v1beta1.Guarantee{Resource: negative},
		},
	}, metav1.CreateOptions{})
	return err
}

// hyperNodes creates HyperNodes that contain each other, or whose selector is not a valid regular expression.
func (o oddObjects) hyperNodes(ctx context.Context) error {
	exact := func(name string) topologyv1alpha1.MemberSelector {
		return topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: name}}
	}
	for name, member := range map[string]topologyv1alpha1.MemberSpec{
		"soak-odd-a": {Type: topologyv1alpha1.MemberTypeHyperNode, Selector: exact("soak-odd-b")},
		"soak-odd-b": {Type: topologyv1alpha1.MemberTypeHyperNode, Selector: exact("soak-odd-a")},
		"soak-odd-c": {Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{
			RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "(((["},
		}},
	} {
		_, err := o.vc.TopologyV1alpha1().HyperNodes().Create(ctx, &topologyv1alpha1.HyperNode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       topologyv1alpha1.HyperNodeSpec{Tier: 1, Members: []topologyv1alpha1.MemberSpec{member}},
		}, metav1.CreateOptions{})
		if err != nil && !refusedForGood(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// remove deletes all of these objects.
func (o oddObjects) remove(ctx context.Context) error {
	everything, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	return persistently(ctx, func() error {
		for _, remove := range []func() error{
			func() error { return o.kube.CoreV1().Pods(oddNamespace).DeleteCollection(ctx, now, everything) },
			func() error {
				return o.vc.SchedulingV1beta1().PodGroups(oddNamespace).DeleteCollection(ctx, now, everything)
			},
			func() error { return o.vc.SchedulingV1beta1().Queues().Delete(ctx, "soak-odd", now) },
			func() error { return o.vc.TopologyV1alpha1().HyperNodes().Delete(ctx, "soak-odd-a", now) },
			func() error { return o.vc.TopologyV1alpha1().HyperNodes().Delete(ctx, "soak-odd-b", now) },
			func() error { return o.vc.TopologyV1alpha1().HyperNodes().Delete(ctx, "soak-odd-c", now) },
		} {
			if err := remove(); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}
