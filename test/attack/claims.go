// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/dynamicresources"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
)

// claims returns attacks with claims of volumes and devices.
func claims() []attack {
	return []attack{
		{
			name: "hanging-volumes", run: hangingVolumes,
			does: "creates gangs of 200 pods whose volumes are never provisioned",
			harm: "waiting pre-bind steps use up the places for the victim's steps",
		},
		{
			name: "slow-cel", run: slowCEL,
			does: "creates pods whose claims have selectors with the highest cost that CEL allows",
			harm: "each cycle evaluates them for each device",
		},
		{
			name: "claim-churn", run: claimChurn,
			does: "creates, annotates and deletes claims of volumes and devices, with forged selected nodes, while pods wait for claims that do not exist",
			harm: "each change ends waits, and forged nodes mislead the volume plugin",
		},
		{
			name: "claims-at-restart", run: claimsAtRestart, restarts: true,
			does: "marks its claims of volumes and devices as written by the scheduler, and patches them as fast as the API server takes it while the scheduler is killed and starts again",
			harm: "the new leader's attempts to withdraw the writes meet conflicts for ever, and no session opens",
		},
	}
}

// devices returns attacks on deviceshare.
func devices() []attack {
	return []attack{
		{
			name: "forged-devices", run: forgedDevices,
			does: "runs pods that request no device, but have all 8 GPUs of each node in the annotation of allocated devices",
			harm: "the GPUs count as allocated, and no other pod gets them",
		},
		{
			name: "device-shapes", run: deviceShapes,
			does: "submits 64 gangs with 64 different requests for GPUs, memory and NICs that fit nowhere",
			harm: "each cycle checks each request on each node",
		},
	}
}

func hangingVolumes(ctx context.Context, t *tenant) error {
	const pods = 200
	g := gang{name: "hangs", size: pods, cpu: "10m", pod: func(i int, pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("hangs-%d", i)},
		}}}
	}}
	t.each(ctx, pods, func(n int) error { return t.createVolumeClaim(ctx, fmt.Sprintf("hangs-%d", n), nil) })
	t.submit(ctx, g)
	return hold(ctx)
}

func (t *tenant) createVolumeClaim(ctx context.Context, name string, annotations map[string]string) error {
	_, err := t.kube.CoreV1().PersistentVolumeClaims(tenantNamespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(hangingClass), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	return err
}

func slowCEL(ctx context.Context, t *tenant) error {
	// Nested loops over a list of 25 numbers are the most that the API server's cost estimate admits.
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 25), ",") + "]"
	slow := fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, a + b + c > 0))) && false", list)
	t.each(ctx, 20, func(n int) error {
		name := fmt.Sprintf("slow-%d", n)
		if err := t.createDeviceClaim(ctx, name, slow); err != nil {
			return err
		}
		return t.createPod(ctx, withDevice(newPod(name), name))
	})
	n := 0
	return repeat(ctx, nap, func() { // A changed object is processed again.
		t.note(ctx, t.patchPod(ctx, fmt.Sprintf("slow-%d", n%20), fmt.Sprintf(`{"metadata": {"labels": {"n": "%d"}}}`, n)))
		n++
	})
}

// createDeviceClaim creates a claim of one device, with a selector unless it is empty.
func (t *tenant) createDeviceClaim(ctx context.Context, name, selector string) error {
	_, err := t.kube.ResourceV1().ResourceClaims(tenantNamespace).Create(ctx, deviceClaim(name, selector), metav1.CreateOptions{})
	return err
}

func deviceClaim(name, selector string) *resourcev1.ResourceClaim {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: deviceClass}
	if selector != "" {
		exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "device", Exactly: exactly}}}},
	}
}

// withDevice makes the pod use the claim.
func withDevice(pod *corev1.Pod, claim string) *corev1.Pod {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "own", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "own"}}
	return pod
}

func claimChurn(ctx context.Context, t *tenant) error {
	t.each(ctx, 20, func(n int) error {
		return t.createPod(ctx, withDevice(newPod(fmt.Sprintf("without-%d", n)), fmt.Sprintf("none-%d", n)))
	})
	core, resources := t.kube.CoreV1().PersistentVolumeClaims(tenantNamespace), t.kube.ResourceV1().ResourceClaims(tenantNamespace)
	t.storm(ctx, func(n int) error {
		name := fmt.Sprintf("claim-%d", n)
		if n%2 == 0 {
			if err := t.createDeviceClaim(ctx, name, ""); err != nil {
				return err
			}
			return resources.Delete(ctx, name, metav1.DeleteOptions{})
		}
		selected := map[string]string{"volume.kubernetes.io/selected-node": nodeName(n % nodeCount)}
		if err := t.createVolumeClaim(ctx, name, selected); err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "%s"}}}`, nodeName((n+1)%nodeCount))
		if _, err := core.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
		return core.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return nil
}

// claimsAtRestart patches a few claims, so most updates of the scheduler meet a conflict. Each patch restores the
// annotations.
func claimsAtRestart(ctx context.Context, t *tenant) error {
	const count = 2
	core, resources := t.kube.CoreV1().PersistentVolumeClaims(tenantNamespace), t.kube.ResourceV1().ResourceClaims(tenantNamespace)
	t.each(ctx, count, func(n int) error {
		return errors.Join(t.createVolumeClaim(ctx, fmt.Sprintf("marked-%d", n), nil), t.createDeviceClaim(ctx, fmt.Sprintf("marked-%d", n), ""))
	})
	t.storm(ctx, func(n int) error {
		name := fmt.Sprintf("marked-%d", n/2%count)
		var err error
		if n%2 == 0 {
			patch := fmt.Sprintf(`{"metadata": {"annotations": {"volume.kubernetes.io/selected-node": %q, %q: %q, "n": "%d"}}}`,
				nodeName(0), volumebinding.SchedulerAnnotation, schedulerName, n)
			_, err = core.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		} else {
			patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q, "n": "%d"}, "finalizers": [%q]}}`,
				dynamicresources.SchedulerAnnotation, schedulerName, n, resourcev1.Finalizer)
			_, err = resources.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		return err
	})
	return nil
}

func forgedDevices(ctx context.Context, t *tenant) error {
	var all []string
	for minor := range gpusPerNode {
		all = append(all, fmt.Sprintf(`{"minor":%d,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}`, minor))
	}
	text := `{"gpu":[` + strings.Join(all, ",") + `]}`
	t.submit(ctx, gang{name: "forged", size: nodeCount, cpu: "10m", pod: func(i int, pod *corev1.Pod) {
		on(pod, nodeName(i))
		pod.Annotations[deviceAllocated] = text
	}})
	n := 0
	return repeat(ctx, nap, func() { // The chart's policy must reject this for bound pods.
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, deviceAllocated, text)
		t.note(ctx, t.patchPod(ctx, fmt.Sprintf("forged-%d", n%nodeCount), patch))
		n++
	})
}

func deviceShapes(ctx context.Context, t *tenant) error {
	for n := range 64 {
		t.submit(ctx, gang{name: fmt.Sprintf("shape-%d", n), size: 2, cpu: "1", pod: func(i int, pod *corev1.Pod) {
			switch n % 3 {
			case 0:
				ask(pod, gpuResource, fmt.Sprint(100*(9+n)))
			case 1:
				ask(pod, "koordinator.sh/gpu-core", fmt.Sprint(n+1))
				ask(pod, "koordinator.sh/gpu-memory", fmt.Sprintf("%dGi", 100+n))
			default:
				ask(pod, gpuResource, "200")
				ask(pod, "koordinator.sh/rdma", fmt.Sprint(500+n))
			}
		}})
	}
	n := 0
	return repeat(ctx, nap, func() {
		t.note(ctx, t.patchPod(ctx, fmt.Sprintf("shape-%d-0", n%64), fmt.Sprintf(`{"metadata": {"labels": {"n": "%d"}}}`, n)))
		n++
	})
}
