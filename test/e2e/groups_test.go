// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// together puts the gangs into one gang group. Further annotations apply to each of them.
func together(namespace string, list []gang, annotations ...string) []gang {
	var names []string
	for _, g := range list {
		names = append(names, fmt.Sprintf("%q", namespace+"/"+g.name))
	}
	out := make([]gang, len(list))
	for i, g := range list {
		former := g.podGroup
		g.podGroup = func(pg *v1beta1.PodGroup) {
			if former != nil {
				former(pg)
			}
			metav1.SetMetaDataAnnotation(&pg.ObjectMeta, gangs.GroupsAnnotation, "["+strings.Join(names, ",")+"]")
			for i := 0; i < len(annotations); i += 2 {
				metav1.SetMetaDataAnnotation(&pg.ObjectMeta, annotations[i], annotations[i+1])
			}
		}
		out[i] = g
	}
	return out
}

var _ = Describe("A group of gangs", func() {
	It("is bound in no part when the pre-bind of one member fails, and all of it moves", func(ctx SpecContext) {
		w := newTestEnv(ctx, "group-move", 0, "1")
		for i, cluster := range []string{"a", "b", "c", "d"} {
			w.addCluster(ctx, cluster, 2*i, 2, "2")
		}
		w.start(ctx, w.conf("first", "second")+inClusters)
		group := together(w.name, []gang{required(gang{name: "x", size: 4, min: 4}), required(gang{name: "y", size: 4, min: 4}), required(gang{name: "z", size: 4, min: 4})})
		culprit := group[1].member(2)
		w.plugins.order("second", culprit, control.Fail)
		w.submit(ctx, group[0])
		w.submit(ctx, group[1])

		By("waiting for the gang that is not there")
		w.seen.eventuallyFailed(group[0], "WaitingForGroup", "gangs that do not exist or belong to another scheduler", w.name+"/z")

		By("binding nobody while one member fails")
		w.submit(ctx, group[2])
		for _, g := range group {
			w.seen.eventuallyFailed(g, "PreBindFailed", "plugin second", w.name+"/"+culprit, "told to fail")
		}
		tries := func() int { return w.plugins.calls(control.PreBind, "second", culprit) }
		Eventually(tries).Should(BeNumerically(">=", 3))
		Expect(w.seen.everBound(group[0]) + w.seen.everBound(group[1]) + w.seen.everBound(group[2])).To(BeZero())

		By("being bound whole once it may, each gang in a cluster of its own")
		w.plugins.revoke("second", culprit, control.Fail)
		clusters := map[string]bool{}
		for _, g := range group {
			w.seen.eventuallyBound(g, 4)
			in := w.seen.clustersOf(g)
			Expect(in).To(HaveLen(1), "clusters of gang %s", g.name)
			clusters[in[0]] = true
			for _, pod := range g.pods() {
				Expect(w.seen.Pod(pod).Annotations).To(And(
					HaveKeyWithValue(gangs.BindGroupAnnotation, fmt.Sprintf("%[1]s/x,%[1]s/y,%[1]s/z", w.name)),
					HaveKeyWithValue(gangs.BindMembersAnnotation, "12")), "annotations of pod %s", pod)
			}
		}
		Expect(clusters).To(HaveLen(3))
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("that is strict loses all of itself with a member above the minimum; one that is not goes on without it", func(ctx SpecContext) {
		w := newTestEnv(ctx, "group-strict", 1, "20")
		w.start(ctx, w.conf("first"))
		strict := together(w.name, []gang{{name: "sx", size: 3, min: 2}, {name: "sy", size: 2, min: 2}}, gangs.ModeAnnotation, "Strict")
		loose := together(w.name, []gang{{name: "lx", size: 3, min: 2}, {name: "ly", size: 2, min: 2}}, gangs.ModeAnnotation, "NonStrict")
		w.plugins.order("first", "sx-2", control.Fail)
		w.plugins.order("first", "lx-2", control.Fail)
		for _, g := range append(strict, loose...) {
			w.submit(ctx, g)
		}
		w.seen.eventuallyBound(loose[0], 2)
		w.seen.eventuallyBound(loose[1], 2)
		w.seen.eventuallyFailed(strict[1], "PreBindFailed", "told to fail", "the gang is strict")
		Eventually(func() int { return w.plugins.calls(control.PreBind, "first", "sx-2") }).Should(BeNumerically(">=", 2))
		Expect(w.seen.everBound(strict[0]) + w.seen.everBound(strict[1])).To(BeZero())
		w.plugins.revoke("first", "sx-2", control.Fail)
		w.plugins.revoke("first", "lx-2", control.Fail)
		w.seen.eventuallyBound(strict[0], 3)
		w.seen.eventuallyBound(strict[1], 2)
		w.seen.eventuallyBound(loose[0], 3)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("is completed first after a kill -9 in the middle of its binds", func(ctx SpecContext) {
		w := newTestEnv(ctx, "group-kill", 1, "6")
		proxy := startProxy()
		group := together(w.name, []gang{{name: "x", size: 3, min: 3}, {name: "y", size: 3, min: 3}})
		held := proxy.Add(w.bindingsTo("y-.*", 0, faultproxy.Hold()))
		scheduler := w.startBehind(ctx, proxy, w.conf("first"))
		w.submit(ctx, group[0])
		w.submit(ctx, group[1])
		w.seen.eventuallyBound(group[0], 3)
		Eventually(held.Hits).Should(Equal(3))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		urgent := gang{name: "a", size: 3, min: 3, priority: "e2e-high"}
		w.submit(ctx, urgent)
		Expect(w.seen.bound(group[1])).To(BeZero())

		w.start(ctx, w.conf("first"))
		w.seen.eventuallyBound(group[1], 3)
		Eventually(func() int { return w.seen.eventCount("PodGroup", "y", "PartiallyBound") }).Should(Equal(1))
		Expect(w.seen.everBound(urgent)).To(BeZero())
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("waits when it is scaled down in the middle of its transaction, and goes with a smaller minimum", func(ctx SpecContext) {
		w := newTestEnv(ctx, "group-scale", 1, "20")
		w.start(ctx, w.conf("first"))
		group := together(w.name, []gang{{name: "x", size: 3, min: 3}, {name: "y", size: 2, min: 2}})
		w.plugins.order("first", "x-0", control.Hang)
		w.submit(ctx, group[0])
		w.submit(ctx, group[1])
		Eventually(func() int { return w.plugins.calls(control.PreBind, "first", "x-0") }).Should(Equal(1))
		w.deletePod(ctx, "x-2")
		w.plugins.revoke("first", "x-0", control.Hang)
		w.seen.eventuallyFailed(group[1], "WaitingForGroup", w.name+"/x has 2 of 3 pods")
		Expect(w.seen.everBound(group[0]) + w.seen.everBound(group[1])).To(BeZero())

		By("being told of the smaller minimum")
		smaller := group[0]
		smaller.min = 2
		w.grow(ctx, smaller)
		w.seen.eventuallyBound(group[0], 2)
		w.seen.eventuallyBound(group[1], 2)
		w.seen.expectNoLeaks(ctx, "first")
	})
})
