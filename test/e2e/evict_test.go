// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
)

var _ = Describe("Upstream's actions", func() {
	It("preempt: a gang of high priority takes the room of one of low priority", func(ctx SpecContext) {
		w := newTestEnv(ctx, "preempt", 1, "4")
		w.start(ctx, w.confWith("enqueue, allocate, preempt, backfill", "", "first"))
		low := gang{name: "low", size: 4, min: 1, priority: "e2e-low"}
		w.submit(ctx, low)
		w.seen.eventuallyBound(low, 4)
		w.seen.eventuallyRunning(low)
		high := gang{name: "high", size: 2, min: 2, priority: "e2e-high"}
		w.submit(ctx, high)
		w.seen.eventuallyBound(high, 2)
		w.seen.eventuallyRunning(high)
		Expect(w.seen.bound(low)).To(Equal(2))
		w.seen.expectStagedAtomically(high, "first")
	})

	It("preempt: whole gangs take the room of whole gangs, and only if it suffices", func(ctx SpecContext) {
		w := newTestEnv(ctx, "preempt-gangs", 2, "4")
		w.start(ctx, w.evicting())
		// Each of the gangs fills a node.
		middle, low := gang{name: "middle", size: 4, min: 4, priority: "e2e-middle"}, gang{name: "low", size: 4, min: 4, priority: "e2e-low"}
		for _, g := range []gang{middle, low} {
			w.submit(ctx, g)
			w.seen.eventuallyBound(g, 4)
			w.seen.eventuallyRunning(g)
		}
		tooLarge := gang{name: "large", size: 9, min: 9, priority: "e2e-high"}
		w.submit(ctx, tooLarge)
		w.seen.eventuallyFailed(tooLarge, "QueueFull", "preemption cannot help: the cluster has room for 8 of 9 members even without the pods that may be evicted")
		w.deleteGang(ctx, tooLarge)
		high := gang{name: "high", size: 2, min: 2, priority: "e2e-high"}
		w.submit(ctx, high)
		w.seen.eventuallyBound(high, 2)
		w.seen.eventuallyRunning(high)
		Expect(w.seen.bound(middle)).To(Equal(4), "the gang of middle priority is untouched")
		Expect(w.seen.bound(low)).To(BeZero(), "the gang of low priority is evicted whole")
		Expect(w.seen.eventMessages("PodGroup", "high")).To(ContainSubstring("PodsEvicted: action preempt evicts 4 pods in the cluster: 4 of gang low (priority 10)"))
		w.seen.expectStagedAtomically(high, "first")
	})

	DescribeTable("preempt: a victim whose deletion fails at first is deleted all the same, and no other in its place", func(ctx SpecContext, name, action string) {
		w := newTestEnv(ctx, name, 1, "4")
		proxy := startProxy()
		broken := proxy.Add(faultproxy.Rule{
			Method: http.MethodDelete, Path: "/namespaces/" + w.name + "/pods/low-", Limit: 2,
			Action: faultproxy.Answer(http.StatusInternalServerError, 0),
		})
		w.startBehind(ctx, proxy, w.confWith("enqueue, allocate, "+action+", backfill", "", "first"))
		low := gang{name: "low", size: 4, min: 1, priority: "e2e-low"}
		w.submit(ctx, low)
		w.seen.eventuallyBound(low, 4)
		w.seen.eventuallyRunning(low)
		high := gang{name: "high", size: 2, min: 2, priority: "e2e-high"}
		w.submit(ctx, high)
		w.seen.eventuallyBound(high, 2)
		w.seen.eventuallyRunning(high)
		Expect(broken.Hits()).To(Equal(2))
		Expect(w.seen.bound(low)).To(Equal(2))
	},
		Entry("by upstream's action", "evict-fails", "preempt-upstream"),
		Entry("by this project's action", "evict-fails-gangs", "preempt"),
	)

	DescribeTable("reclaim: a queue gets back what it deserves", func(ctx SpecContext, name, action string) {
		w := newTestEnv(ctx, name, 1, "4")
		lender, owner := w.name+"-lender", w.name+"-owner"
		for _, name := range []string{lender, owner} {
			queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.QueueSpec{Weight: 1}}
			_, err := vc.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) error {
				return vc.SchedulingV1beta1().Queues().Delete(ctx, name, metav1.DeleteOptions{})
			})
			Eventually(func() (v1beta1.QueueState, error) {
				queue, err := vc.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				return queue.Status.State, nil
			}).Should(Equal(v1beta1.QueueStateOpen))
		}
		w.start(ctx, w.confWith("enqueue, allocate, "+action+", backfill", "", "first"))
		borrowed := gang{name: "borrowed", size: 4, min: 1, queue: lender}
		w.submit(ctx, borrowed)
		w.seen.eventuallyBound(borrowed, 4)
		w.seen.eventuallyRunning(borrowed)
		own := gang{name: "own", size: 2, min: 2, queue: owner}
		w.submit(ctx, own)
		w.seen.eventuallyBound(own, 2)
		w.seen.eventuallyRunning(own)
		Expect(w.seen.bound(borrowed)).To(Equal(2))
	},
		Entry("by upstream's action", "reclaim", "reclaim-upstream"),
		Entry("by this project's action", "reclaim-gangs", "reclaim"),
	)
})
