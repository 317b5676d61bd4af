// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// trainingPod returns a pod with all the fields that pods of a training job usually have, as a scheduler's informer
// stores it: decoded, so it shares no text with other pods, and trimmed.
func trainingPod(tb testing.TB, name, gang string) *v1.Pod {
	tb.Helper()
	pod := schedtest.MakePod().Name(name).Group(gang).Req(schedtest.Resources{"cpu": "1", "memory": "1Gi"}).
		Annotation("prometheus.io/path", "/metrics").Annotation("prometheus.io/port", "9400").
		Annotation("sidecar.istio.io/inject", "false").Annotation("k8s.v1.cni.cncf.io/networks", "rdma/ib0,rdma/ib1,rdma/ib2,rdma/ib3").Obj()
	pod.Labels = map[string]string{
		"app.kubernetes.io/name": "trainer", "app.kubernetes.io/instance": gang, "training.kubeflow.org/job-name": gang, "training.kubeflow.org/replica-type": "worker",
		"training.kubeflow.org/replica-index": name,
	}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "controller", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 2000)}}}
	pod.Spec.Tolerations = []v1.Toleration{
		{Key: "nvidia.com/gpu", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	}
	c := &pod.Spec.Containers[0]
	c.Image = "registry.example.com/research/trainer:2026-11-24"
	c.Command = []string{"torchrun", "--nnodes=$(WORLD_SIZE)", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "/workspace/train.py"}
	for i := range 40 {
		c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("TRAINER_SETTING_%02d", i), Value: fmt.Sprintf("the value of setting %d of %s", i, gang)})
	}
	for _, field := range []string{"metadata.name", "metadata.namespace", "status.podIP", "spec.nodeName"} {
		c.Env = append(c.Env, v1.EnvVar{Name: "OF_" + field, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}}})
	}
	for i := range 8 {
		volume := fmt.Sprintf("volume-%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: volume, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: gang + "-" + volume}},
		}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: "/mnt/" + volume, ReadOnly: true})
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue})
	}
	return asInformed(tb, pod)
}

// asInformed returns the pod as the informer stores it.
func asInformed(tb testing.TB, pod *v1.Pod) *v1.Pod {
	tb.Helper()
	encoded, err := pod.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	decoded := &v1.Pod{}
	if err := decoded.Unmarshal(encoded); err != nil {
		tb.Fatal(err)
	}
	_, _ = quarantine.Trimmed(decoded) // It never fails.
	return decoded
}

// TestATrainingPodHasARealisticSize checks that a training pod has a realistic size, without its managed fields, and
// on a node also without the fields that only its kubelet reads.
func TestATrainingPodHasARealisticSize(t *testing.T) {
	pod := trainingPod(t, "pod-0", "gang-0")
	if size := pod.Size(); size < 4000 || size > 6000 {
		t.Errorf("the pending pod has %d bytes, want 4000 to 6000", size)
	}
	pod.Spec.NodeName = "node-0"
	if size := asInformed(t, pod).Size(); size > 2000 {
		t.Errorf("the pod on a node has %d bytes, want at most 2000", size)
	}
}

// residentMiB returns the resident memory of this process, or 0 if the system does not report it.
func residentMiB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return float64(resident*int64(os.Getpagesize())) / (1 << 20)
}
