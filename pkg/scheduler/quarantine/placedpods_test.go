// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPodsOnNodesLoseWhatTheirKubeletRuns checks that pods on nodes lose the fields that only their kubelet reads.
// Environment, commands, mounts and probes are half of a pod. A pending pod keeps them, because plugins may use them
// and its status is written with the whole pod.
func TestPodsOnNodesLoseWhatTheirKubeletRuns(t *testing.T) {
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	read := v1.Container{
		Name: "c", Image: "registry.example.com/c:1", RestartPolicy: new(v1.ContainerRestartPolicyAlways),
		Ports:           []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}},
		Resources:       v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}, Claims: []v1.ResourceClaim{{Name: "gpu"}}},
		ResizePolicy:    []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}},
		SecurityContext: &v1.SecurityContext{Privileged: new(true)},
	}
	whole := read
	whole.Command, whole.Args = []string{"train"}, []string{"--steps=1"}
	whole.Env, whole.EnvFrom = []v1.EnvVar{{Name: "A", Value: "b"}}, []v1.EnvFromSource{{Prefix: "p"}}
	whole.VolumeMounts, whole.VolumeDevices = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}, []v1.VolumeDevice{{Name: "w", DevicePath: "/w"}}
	whole.LivenessProbe, whole.ReadinessProbe, whole.StartupProbe = probe, probe, probe
	whole.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}

	podOf := func(node string, c v1.Container) *v1.Pod {
		pod := schedtest.MakePod().Name("p").Node(node).Phase(v1.PodPending).Obj()
		pod.Spec.Containers, pod.Spec.InitContainers = []v1.Container{c, c}, []v1.Container{c}
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(c), TargetContainerName: "c"}}
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		return pod.DeepCopy()
	}
	for name, tt := range map[string]struct{ pod, want *v1.Pod }{
		"a pod on a node": {podOf("n", whole), podOf("n", read)},
		"a pending pod":   {podOf("", whole), podOf("", whole)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Trimmed(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(tt.want), got); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}
