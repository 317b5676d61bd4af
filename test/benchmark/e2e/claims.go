// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// The kinds of claims that each pod can have.
const (
	// volumes are created by a provisioner that answers as soon as a node is selected for their claim.
	volumes = "volumes"
	// devices exist on each node, as many as it has CPUs.
	devices = "devices"
)

const (
	// claimed is the name of the storage class and its provisioner, or of the device class and its driver.
	claimed = "claimed.bench"
	// controllerCalls exceeds the call rate of kube-controller-manager. Otherwise its limit would be measured, not
	// the scheduler.
	controllerCalls = 5000
)

// controllerArgs returns the flags that the claims need for kube-controller-manager.
func (p *plan) controllerArgs() []string {
	if p.claims == "" {
		return nil
	}
	return []string{fmt.Sprintf("--kube-api-qps=%d", controllerCalls), fmt.Sprintf("--kube-api-burst=%d", controllerCalls)}
}

// provide creates the objects that pods claim, or starts their provisioner.
func (s *testbed) provide(ctx context.Context) error {
	switch s.plan.claims {
	case volumes:
		return s.provideVolumes(ctx)
	case devices:
		return s.provideDevices(ctx)
	}
	return nil
}

func (s *testbed) provideVolumes(ctx context.Context) error {
	_, err := s.driver.kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimed}, Provisioner: claimed,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating storage class %s: %w", claimed, err)
	}
	orders := filepath.Join(s.dir, "provisioner")
	if err := os.Mkdir(orders, 0o755); err != nil {
		return err
	}
	root, err := controlplane.RepoRoot()
	if err != nil {
		return err
	}
	s.provisioner, err = s.cp.StartBeside("provisioner", filepath.Join(root, "bin", "e2e-provisioner"),
		"--kubeconfig="+s.cp.Kubeconfig(), "--provisioner="+claimed, "--control="+orders)
	return err
}

func (s *testbed) provideDevices(ctx context.Context) error {
	ofDriver := fmt.Sprintf("device.driver == %q", claimed)
	_, err := s.driver.kube.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimed},
		Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: ofDriver}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating device class %s: %w", claimed, err)
	}
	onEach := make([]resourcev1.Device, nodeCPUs)
	for i := range onEach {
		onEach[i].Name = fmt.Sprintf("device-%d", i)
	}
	var all []creation
	for _, node := range s.nodes {
		all = append(all, creation{&gang{}, func(ctx context.Context) error {
			_, err := s.driver.kube.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: node},
				Spec: resourcev1.ResourceSliceSpec{
					Driver: claimed, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: onEach,
				},
			}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating the resource slice of node %s: %w", node, err)
			}
			return nil
		}})
	}
	_, err = s.driver.send(ctx, all)
	return err
}

// claim gives the pod a separate claim with its name.
func (p *plan) claim(pod *corev1.Pod) {
	switch p.claims {
	case volumes:
		pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name},
		}}}
	case devices:
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "own", ResourceClaimName: &pod.Name}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "own"}}
	}
}

// sendClaims creates the claims of the gangs' pods before the clock starts, because nothing is done for a claim
// before its pod is placed.
func (s *testbed) sendClaims(ctx context.Context, gangs ...*gang) error {
	send := map[string]func(ctx context.Context, name string) error{volumes: s.driver.volumeClaim, devices: s.driver.deviceClaim}[s.plan.claims]
	if send == nil {
		return nil
	}
	var all []creation
	for _, g := range gangs {
		for _, pod := range g.pods {
			all = append(all, creation{g, func(ctx context.Context) error {
				if err := send(ctx, pod.Name); err != nil {
					return fmt.Errorf("creating claim %s: %w", pod.Name, err)
				}
				return nil
			}})
		}
	}
	_, err := s.driver.send(ctx, all)
	return err
}

func (d *driver) volumeClaim(ctx context.Context, name string) error {
	_, err := d.kube.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(claimed), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	return err
}

func (d *driver) deviceClaim(ctx context.Context, name string) error {
	_, err := d.kube.ResourceV1().ResourceClaims(namespace).Create(ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: claimed},
		}}}},
	}, metav1.CreateOptions{})
	return err
}
