// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// writers is the number of pods that are created concurrently.
const writers = 16

// gang is a PodGroup and its pods, which are named after it and numbered.
type gang struct {
	name string
	// size is the number of its pods, and min its minMember.
	size, min int
	// cpu is the request of each pod. An empty value means "1".
	cpu      string
	queue    string
	priority string
	// podGroup and pod may change the created objects. i is the pod's number.
	podGroup func(*v1beta1.PodGroup)
	pod      func(i int, pod *corev1.Pod)
}

func (g gang) pods() []string {
	names := make([]string, g.size)
	for i := range names {
		names[i] = g.member(i)
	}
	return names
}

func (g gang) member(i int) string { return fmt.Sprintf("%s-%d", g.name, i) }

// submit creates the gang's PodGroup and its pods.
func (w *testEnv) submit(ctx context.Context, g gang) {
	GinkgoHelper()
	w.submitGroup(ctx, g)
	w.submitPods(ctx, g, 0, g.size)
}

func (w *testEnv) submitGroup(ctx context.Context, g gang) {
	GinkgoHelper()
	group := &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: g.name, Namespace: w.name},
		Spec:       v1beta1.PodGroupSpec{MinMember: int32(g.min), Queue: g.queue, PriorityClassName: g.priority},
	}
	if g.podGroup != nil {
		g.podGroup(group)
	}
	_, err := vc.SchedulingV1beta1().PodGroups(w.name).Create(ctx, group, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// submitPods creates the gang's pods with numbers from first up to, but not including, last.
func (w *testEnv) submitPods(ctx context.Context, g gang, first, last int) {
	GinkgoHelper()
	errs := make([]error, last)
	gate := make(chan struct{}, writers)
	var wg sync.WaitGroup
	for i := first; i < last; i++ {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			_, errs[i] = kube.CoreV1().Pods(w.name).Create(ctx, w.podOf(g, i), metav1.CreateOptions{})
		})
	}
	wg.Wait()
	for _, err := range errs {
		Expect(err).NotTo(HaveOccurred())
	}
}

func (w *testEnv) podOf(g gang, i int) *corev1.Pod {
	cpu := g.cpu
	if cpu == "" {
		cpu = "1"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: g.member(i), Namespace: w.name,
			Annotations: map[string]string{v1beta1.KubeGroupNameAnnotationKey: g.name},
		},
		Spec: corev1.PodSpec{
			SchedulerName:     w.name,
			PriorityClassName: g.priority,
			NodeSelector:      map[string]string{specLabel: w.name},
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
	}
	if g.pod != nil {
		g.pod(i, pod)
	}
	return pod
}

// role makes a pod a member of a task, as the job controller does.
func role(pod *corev1.Pod, task string) { pod.Annotations[batchv1alpha1.TaskSpecKey] = task }

// deletePod deletes a pod without a grace period.
func (w *testEnv) deletePod(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(kube.CoreV1().Pods(w.name).Delete(ctx, name, *metav1.NewDeleteOptions(0))).To(Succeed())
}

// deleteGang deletes a gang's PodGroup and pods without a grace period, and the plugins' objects for bound pods. As
// with a volume, their deletion is not the scheduler's task.
func (w *testEnv) deleteGang(ctx context.Context, g gang) {
	GinkgoHelper()
	bound := w.seen.EverBound()
	for _, name := range g.pods() {
		w.deletePod(ctx, name)
	}
	Expect(vc.SchedulingV1beta1().PodGroups(w.name).Delete(ctx, g.name, metav1.DeleteOptions{})).To(Succeed())
	traces, err := kube.CoreV1().ConfigMaps(w.name).List(ctx, metav1.ListOptions{LabelSelector: control.PluginLabel})
	Expect(err).NotTo(HaveOccurred())
	for _, trace := range traces.Items {
		if pod := trace.Data[control.PodKey]; slices.Contains(g.pods(), pod) && bound[pod] == trace.Data[control.NodeKey] {
			Expect(kube.CoreV1().ConfigMaps(w.name).Delete(ctx, trace.Name, metav1.DeleteOptions{})).To(Succeed())
		}
	}
}

// touch changes a field of the gang that a user may change, so that the gang is retried at once.
func (w *testEnv) touch(ctx context.Context, g gang) {
	GinkgoHelper()
	Eventually(func() error {
		group, err := vc.SchedulingV1beta1().PodGroups(w.name).Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&group.ObjectMeta, "e2e.volcano-prebind.io/touched", group.ResourceVersion)
		_, err = vc.SchedulingV1beta1().PodGroups(w.name).Update(ctx, group, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// grow sets the PodGroup's minMember to that of the gang.
func (w *testEnv) grow(ctx context.Context, g gang) {
	GinkgoHelper()
	Eventually(func() error {
		group, err := vc.SchedulingV1beta1().PodGroups(w.name).Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		group.Spec.MinMember = int32(g.min)
		_, err = vc.SchedulingV1beta1().PodGroups(w.name).Update(ctx, group, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}
