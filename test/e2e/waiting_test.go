// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var _ = Describe("A gang that waits", func() {
	It("says why, and its pods say the same", func(ctx SpecContext) {
		w := newTestEnv(ctx, "waiting", 2, "4")
		closed := createQueue(ctx, w.name, v1beta1.QueueStateClosed)
		w.start(ctx, w.conf())

		By("being larger than the cluster")
		large := gang{name: "large", size: 10, min: 10}
		w.submit(ctx, large)
		w.seen.eventuallySays(large, "NotEnoughResources", "8/10 members fit: 2 nodes filled by its members (cpu)")
		w.deleteGang(ctx, large)

		By("lacking pods")
		few := gang{name: "few", size: 2, min: 4}
		w.submit(ctx, few)
		w.seen.eventuallySays(few, "NotEnoughTasks", "minMember is 4 and there are 2 pods")

		By("being in a closed queue")
		late := gang{name: "late", size: 1, min: 1, queue: closed}
		w.submit(ctx, late)
		w.seen.eventuallySays(late, "QueueNotOpen", "queue "+closed+" is Closed and accepts no pods; have it opened, or use another queue")

		By("being in a queue that is not there")
		nowhere := gang{name: "nowhere", size: 1, min: 1, queue: w.name + "-none"}
		w.submit(ctx, nowhere)
		w.seen.eventuallySays(nowhere, "QueueNotFound", `queue "`+w.name+`-none" does not exist; create it, or correct spec.queue`)

		By("having no PodGroup")
		stray := gang{name: "stray", size: 1}
		w.submitPods(ctx, stray, 0, 1)
		message := `PodGroup "stray" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
		Eventually(func() corev1.PodCondition { return w.seen.scheduled(stray.member(0)) }).
			Should(And(HaveField("Reason", "PodGroupNotFound"), HaveField("Message", message)))
		Eventually(func() string { return w.seen.eventMessages("Pod", stray.member(0)) }).Should(ContainSubstring("FailedScheduling: " + message))

		By("being bound once it lacks nothing")
		few.size = 4
		w.submitPods(ctx, few, 2, 4)
		w.seen.eventuallyBound(few, 4)
		Eventually(func() any { return w.seen.unschedulable(few) }).Should(BeNil())
	})
})

// createQueue creates a queue in the state, and returns its name. It is deleted after the spec.
func createQueue(ctx context.Context, name string, state v1beta1.QueueState) string {
	GinkgoHelper()
	queues := vc.SchedulingV1beta1().Queues()
	_, err := queues.Create(ctx, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.QueueSpec{Weight: 1}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) error { return queues.Delete(ctx, name, metav1.DeleteOptions{}) })
	Eventually(func() error { // Other clients write it, too.
		queue, err := queues.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		queue.Status.State = state
		_, err = queues.UpdateStatus(ctx, queue, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
	return name
}

// eventuallySays waits until the conditions of the PodGroup and its pods have exactly this reason and message.
func (o observed) eventuallySays(g gang, reason, message string) {
	GinkgoHelper()
	Eventually(func() *v1beta1.PodGroupCondition { return o.unschedulable(g) }).
		Should(And(Not(BeNil()), HaveField("Reason", reason), HaveField("Message", message)), "condition of PodGroup %s", g.name)
	for _, pod := range g.pods() {
		Eventually(func() string { return o.scheduled(pod).Message }).Should(Equal(message), "condition of pod %s", pod)
	}
}
