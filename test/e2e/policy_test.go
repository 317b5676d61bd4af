// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

const noQuarantine = `- plugins:
  - name: bindpolicy
    arguments:
      bindpolicy.policies:
      - name: no-quarantine
        expression: "!('quarantine' in node.?metadata.labels.orValue({}))"
        messageExpression: "'the node is in quarantine: ' + node.metadata.labels['quarantine']"
`

var _ = Describe("The scheduler that is shipped", func() {
	shipped := func(conf string) controlplane.SchedulerOptions {
		return controlplane.SchedulerOptions{Binary: filepath.Join(binaries, "vc-scheduler"), Conf: conf}
	}

	It("keeps a gang off a node that a policy refuses at the last moment, until it does not", func(ctx SpecContext) {
		w := newTestEnv(ctx, "policy", 2, "2")
		label := func(value string) {
			GinkgoHelper()
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"quarantine":%s}}}`, value)
			_, err := kube.CoreV1().Nodes().Patch(ctx, w.node(1), types.MergePatchType, patch, metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		label(`"xid-79"`)
		w.startWith(ctx, shipped(w.conf()+noQuarantine))
		g := gang{name: "g", size: 4, min: 4}
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "bindpolicy", w.node(1), "the node is in quarantine: xid-79")
		Expect(w.seen.everBound(g)).To(BeZero())
		label("null")
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
	})

	It("runs a vcjob through the controller manager", func(ctx SpecContext) {
		w := newTestEnv(ctx, "vcjob", 1, "4")
		w.startWith(ctx, shipped(w.conf()))
		template := w.podOf(gang{name: "job"}, 0)
		job := &batchv1alpha1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: w.name},
			Spec: batchv1alpha1.JobSpec{
				MinAvailable: 3, SchedulerName: w.name,
				Tasks: []batchv1alpha1.TaskSpec{{Name: "worker", Replicas: 3, Template: corev1.PodTemplateSpec{Spec: template.Spec}}},
			},
		}
		job.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := vc.BatchV1alpha1().Jobs(w.name).Create(ctx, job, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (batchv1alpha1.JobPhase, error) {
			job, err := vc.BatchV1alpha1().Jobs(w.name).Get(ctx, "job", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return job.Status.State.Phase, nil
		}).Should(Equal(batchv1alpha1.Running))
		Expect(w.seen.EverBound()).To(HaveLen(3))
		Expect(vc.BatchV1alpha1().Jobs(w.name).Delete(ctx, "job", metav1.DeleteOptions{})).To(Succeed())
	})
})
