// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// replicas is the number of each workload's pods: more than fit on a node, fewer than fit in a cluster.
const replicas = 12

var _ = Describe("A workload without a PodGroup of its own", func() {
	It("lies in one InfiniBand cluster when its annotations, or those of its template, say so", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-inherit", 0, "1")
		w.addCluster(ctx, "a", 0, 4, "10")
		w.addCluster(ctx, "b", 4, 4, "10")
		controllers, err := cp.StartControllerManager(ctx, controlplane.ManagerOptions{
			Name: w.name + "-controllers", Args: []string{"--controllers=pg-controller", "--scheduler-name=" + w.name},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(controllers.Kill9)
		DeferCleanup(func(ctx SpecContext) { deleteWorkloads(ctx, w.name) })
		w.start(ctx, w.conf()+inClusters)

		By("spreading over both when nothing is said")
		newWorkload(w.name, "free", nil, nil).createDeployment(ctx)
		Eventually(func() []string { return clustersOfWorkload(w.seen, "free") }, time.Minute).Should(Equal([]string{"a", "b"}))
		deleteWorkloads(ctx, w.name)

		required := map[string]string{modeAnnotation: "required"}
		for kind, create := range map[string]func(workload, context.Context){
			"deployment": workload.createDeployment, "statefulset": workload.createStatefulSet, "job": workload.createJob,
		} {
			By("reading the annotations of a " + kind)
			create(newWorkload(w.name, kind, required, nil), ctx)
			Eventually(func() []string { return clustersOfWorkload(w.seen, kind) }, time.Minute).Should(HaveLen(1))
			By("reading those of the template of a " + kind)
			create(newWorkload(w.name, kind+"-template", nil, required), ctx)
			Eventually(func() []string { return clustersOfWorkload(w.seen, kind+"-template") }, time.Minute).Should(HaveLen(1))
		}
	})
})

// workload has the common parts of a Deployment, a StatefulSet and a Job.
type workload struct {
	metav1.ObjectMeta
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
}

// newWorkload returns a workload with annotations on itself and on its template. Its pods are a gang.
func newWorkload(namespace, name string, own, ofTemplate map[string]string) workload {
	annotations := map[string]string{v1beta1.VolcanoGroupMinMemberAnnotationKey: "12"}
	maps.Copy(annotations, own)
	labels := map[string]string{"app": name}
	return workload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: annotations},
		selector:   &metav1.LabelSelector{MatchLabels: labels},
		template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: ofTemplate},
			Spec: corev1.PodSpec{
				SchedulerName: namespace, NodeSelector: map[string]string{specLabel: namespace},
				TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}}},
			},
		},
	}
}

func (l workload) createDeployment(ctx context.Context) {
	GinkgoHelper()
	_, err := kube.AppsV1().Deployments(l.Namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: l.ObjectMeta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](replicas), Selector: l.selector, Template: l.template,
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (l workload) createStatefulSet(ctx context.Context) {
	GinkgoHelper()
	_, err := kube.AppsV1().StatefulSets(l.Namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: l.ObjectMeta, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](replicas), Selector: l.selector, Template: l.template, PodManagementPolicy: appsv1.ParallelPodManagement,
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (l workload) createJob(ctx context.Context) {
	GinkgoHelper()
	l.template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := kube.BatchV1().Jobs(l.Namespace).Create(ctx, &batchv1.Job{ObjectMeta: l.ObjectMeta, Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](replicas), Completions: ptr.To[int32](replicas), Template: l.template,
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// deleteWorkloads deletes all workloads of the namespace, and waits until their pods do not exist.
func deleteWorkloads(ctx context.Context, namespace string) {
	GinkgoHelper()
	now, everything := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, metav1.ListOptions{}
	Expect(kube.AppsV1().Deployments(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.BatchV1().Jobs(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Eventually(func() ([]corev1.Pod, error) {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, everything)
		return pods.Items, err
	}).Should(BeEmpty())
}

// clustersOfWorkload returns the clusters of the workload's pods, sorted. It returns none until all of them are
// bound.
func clustersOfWorkload(o observed, app string) []string {
	GinkgoHelper()
	pods, err := kube.CoreV1().Pods(o.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + app})
	Expect(err).NotTo(HaveOccurred())
	nodes := make([]string, 0, replicas)
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	if len(nodes) < replicas {
		return nil
	}
	return o.clustersOfNodes(nodes)
}
