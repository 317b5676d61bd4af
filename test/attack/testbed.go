// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

const (
	schedulerName   = "volcano"
	nodeCount       = 12
	nodeCPUs        = 32
	nodeCPU         = "32"
	gpusPerNode     = 8
	ibClusters      = 2
	gpuResource     = "koordinator.sh/gpu"
	deviceAllocated = v1alpha1.DeviceAllocatedAnnotation

	victimNamespace = "victim"
	victimQueue     = "victim"
	// limitedQueue has a capability of limitedCPUs.
	limitedQueue = "limited"
	limitedCPUs  = "64"
	// highClass is the highest priority class of users, including the victim. Its pods may not be preempted.
	highClass = "attack-high"
	lowClass  = "attack-low"
	// hangingClass is a storage class whose provisioner never answers.
	hangingClass = "attack-hanging"
	// deviceClass is the class, and the driver, of the devices that nodes publish in resource slices.
	deviceClass = "attack.example.com"

	// starvationAfter is short, so attacks on reservations have an effect.
	starvationAfter = 2 * time.Second
	// controllerCalls is the call limit of kube-controller-manager: with the default of 20 a second, the cleanup
	// would be slow.
	controllerCalls = 1000
)

// conf returns the chart's configuration with all plugins of this project, all actions, and the reservation for
// starving gangs.
func conf() string {
	text := strings.Replace(config.DefaultConf, "enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill", 1)
	return strings.Replace(text, "  - name: coscheduling\n", fmt.Sprintf("  - name: coscheduling\n    arguments: {starvationAfter: %s}\n", starvationAfter), 1) +
		"  - name: ibcluster\n    arguments:\n      ibcluster.levels: [ibcluster]\n  - name: dynamicresources\n  - name: deviceshare\n"
}

// testbed is the cluster with its scheduler, the tenant and the victim.
type testbed struct {
	opts options
	out  io.Writer

	cp        *controlplane.ControlPlane
	kube      kubernetes.Interface
	vc        vcclient.Interface
	dyn       dynamic.Interface
	calls     *calls
	scheduler *controlplane.Scheduler
	managers  []*controlplane.Process
	tenant    *tenant
	victim    *victim
}

// setUp starts the cluster. After an error nothing is left running.
func setUp(ctx context.Context, opts options, out io.Writer) (_ *testbed, err error) {
	s := &testbed{opts: opts, out: out}
	var auditing []string
	if s.calls, auditing, err = audited(opts.dir); err != nil {
		return nil, err
	}
	s.cp, err = controlplane.Start(ctx, controlplane.Options{
		Dir: opts.dir, Progress: io.Discard, APIServerArgs: append(auditing, "--delete-collection-workers=8"),
		ControllerManagerArgs: []string{fmt.Sprintf("--kube-api-qps=%d", controllerCalls), fmt.Sprintf("--kube-api-burst=%d", controllerCalls)},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.cp.Stop())
		}
	}()
	admin := s.cp.Config()
	admin.Timeout, admin.QPS = callTimeout, -1
	if s.kube, err = kubernetes.NewForConfig(admin); err != nil {
		return nil, err
	}
	if s.vc, err = vcclient.NewForConfig(admin); err != nil {
		return nil, err
	}
	if s.dyn, err = dynamic.NewForConfig(admin); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		s.cp.InstallCRDs, s.cp.InstallChart, s.makeCluster, s.makeUsers, s.startManagers, s.startScheduler, s.startVictim,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	s.tenant, err = s.newTenant(ctx)
	return s, err
}

// makeCluster creates nodes with GPUs and devices, and the classes that pods may name.
func (s *testbed) makeCluster(ctx context.Context) error {
	shape := controlplane.NodeShape{Count: nodeCount, CPU: nodeCPU, IBClusters: ibClusters}
	if err := s.cp.CreateNodes(ctx, shape); err != nil {
		return err
	}
	for n := range nodeCount {
		if err := s.cp.CreateDevices(ctx, controlplane.EightGPUs(nodeName(n))); err != nil {
			return err
		}
		if err := s.publishDevices(ctx, nodeName(n)); err != nil {
			return err
		}
	}
	_, err := s.kube.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: deviceClass},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceClass)}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: hangingClass}, Provisioner: hangingClass + ".example.com",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for name, value := range map[string]int32{highClass: 1000, lowClass: -1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := s.kube.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *testbed) publishDevices(ctx context.Context, node string) error {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceClass, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for n := range gpusPerNode {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("device-", n)})
	}
	_, err := s.kube.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// makeUsers creates the namespaces of tenant and victim, their queues and the tenant's rights.
func (s *testbed) makeUsers(ctx context.Context) error {
	for _, name := range []string{tenantNamespace, victimNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	limit := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limitedCPUs)}
	// The victim's queue deserves more than half of the cluster, however much the tenant requests in the others.
	for name, spec := range map[string]v1beta1.QueueSpec{victimQueue: {Weight: 4}, limitedQueue: {Weight: 1, Capability: limit}} {
		queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		if _, err := s.vc.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return admit(ctx, s.kube)
}

// startManagers starts Volcano's controllers and webhooks as the chart does.
func (s *testbed) startManagers(ctx context.Context) error {
	controllers, err := s.cp.StartControllerManager(ctx, controlplane.ManagerOptions{})
	if err != nil {
		return err
	}
	webhooks, err := s.cp.StartWebhookManager(ctx, controlplane.ManagerOptions{})
	s.managers = []*controlplane.Process{controllers, webhooks}
	return err
}

func (s *testbed) startScheduler(ctx context.Context) (err error) {
	s.scheduler, err = s.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Conf: conf()})
	return err
}

func (s *testbed) startVictim(ctx context.Context) (err error) {
	s.victim, err = newVictim(ctx, s.kube, s.vc, s.calls)
	return err
}

// restartScheduler restarts the scheduler's process, so that the effect of an attack on it does not affect the
// verdict on the next one.
func (s *testbed) restartScheduler(ctx context.Context) error {
	if err := s.scheduler.Kill9(); err != nil {
		return err
	}
	scheduler, err := s.scheduler.Restart()
	if err != nil {
		return err
	}
	s.scheduler = scheduler
	return scheduler.WaitHealthy(ctx)
}

// logs returns the paths of our processes' logs.
func (s *testbed) logs() []string {
	paths := []string{s.scheduler.LogPath()}
	for _, manager := range s.managers {
		paths = append(paths, manager.LogPath())
	}
	return paths
}

func (s *testbed) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }
