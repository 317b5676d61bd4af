// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
)

// starving returns the testEnv's configuration with this value of coscheduling's argument starvationAfter. All nodes
// may be reserved.
func starving(w *testEnv, after string) string {
	GinkgoHelper()
	const plugin = "  - name: coscheduling\n"
	conf := w.conf()
	Expect(conf).To(ContainSubstring(plugin))
	return strings.Replace(conf, plugin, plugin+"    arguments: {starvationAfter: "+after+", reservedPercent: 100}\n", 1)
}

// shown returns the gang's entry in /debug/gangs.
func shown(ctx context.Context, namespace string, scheduler *controlplane.Scheduler, gang string) (debug.Gang, error) {
	url := fmt.Sprintf("%s/debug/gangs?namespace=%s&podgroup=%s", strings.TrimSuffix(scheduler.MetricsURL(), "/metrics"), namespace, gang)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return debug.Gang{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return debug.Gang{}, err
	}
	defer response.Body.Close()
	var page debug.Page
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || len(page.Gangs) != 1 {
		return debug.Gang{}, fmt.Errorf("%d gangs are shown: %w", len(page.Gangs), err)
	}
	return page.Gangs[0], nil
}

// metricOf returns the value of a metric of the scheduler.
func metricOf(ctx context.Context, scheduler *controlplane.Scheduler, name string) func() string {
	return func() string {
		text, err := scheduler.Metrics(ctx)
		if err != nil {
			return err.Error()
		}
		return metric(string(text), name)
	}
}

// conditionOf returns the reason and the message of a condition of the gang's PodGroup.
func conditionOf(ctx context.Context, namespace string, g gang, kind string) func() string {
	return func() string {
		group, err := vc.SchedulingV1beta1().PodGroups(namespace).Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range group.Status.Conditions {
			if string(c.Type) == kind && c.Status == corev1.ConditionTrue {
				return c.Reason + ": " + c.Message
			}
		}
		return ""
	}
}

// asksFor sets the waiting time and the requested CPU of a gang's PodGroup.
func asksFor(cpu, waitingTime string) func(*v1beta1.PodGroup) {
	return func(group *v1beta1.PodGroup) {
		group.Spec.MinResources = &corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		if waitingTime != "" {
			metav1.SetMetaDataAnnotation(&group.ObjectMeta, gangs.WaitingTimeAnnotation, waitingTime)
		}
	}
}

var _ = Describe("A gang that waits for long", func() {
	It("is sent back when its waiting time is up, says so, and comes again", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-timeout", 1, "8")
		queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: v1beta1.QueueSpec{
			Weight: 1, Capability: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		}}
		_, err := vc.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(vc.SchedulingV1beta1().Queues().Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
		})
		scheduler := w.start(ctx, w.conf())
		late := gang{name: "late", size: 4, min: 4, queue: w.name, podGroup: asksFor("4", "10s")}
		other := gang{name: "other", size: 2, min: 2, queue: w.name, podGroup: asksFor("2", "")}
		w.submitGroup(ctx, late)
		w.submitPods(ctx, late, 0, 3)
		Eventually(conditionOf(ctx, w.name, late, "GangTimeLimit")).Should(HavePrefix("GangAdmitted"))
		w.submit(ctx, other)
		Expect(w.seen.bound(other)).To(BeZero())

		By("sending it back, so that the other passes")
		told := And(HavePrefix("GangTimedOut: Not scheduled within 1"), ContainSubstring("(timeout 1), retrying after"),
			ContainSubstring("minMember is 4 and there are 3 pods"))
		Eventually(conditionOf(ctx, w.name, late, "GangTimeLimit")).Should(told)
		Eventually(conditionOf(ctx, w.name, late, "Unschedulable")).Should(told)
		w.seen.eventuallyBound(other, 2)
		Eventually(func() int { return w.seen.eventCount("PodGroup", late.name, "GangTimedOut") }).Should(BeNumerically(">=", 1))
		Expect(metricOf(ctx, scheduler, "volcano_gang_timeouts_total")()).To(Equal("1"))
		Expect(metricOf(ctx, scheduler, `volcano_gang_waiting_seconds_count{end="timed_out",reason="incomplete"}`)()).To(Equal("1"))
		seen, err := shown(ctx, w.name, scheduler, late.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Settings.WaitingTime).To(Equal("10s"))
		Expect(seen.Conditions).To(HaveKeyWithValue("GangTimeLimit", HaveField("Reason", "GangTimedOut")))

		By("letting it in again after the backoff, once there is room")
		w.deleteGang(ctx, other)
		w.submitPods(ctx, late, 3, 4)
		w.seen.eventuallyBound(late, 4)
		Eventually(func() (debug.State, error) {
			seen, err := shown(ctx, w.name, scheduler, late.name)
			return seen.State, err
		}).Should(BeElementOf(debug.Bound, debug.Running))
		Eventually(metricOf(ctx, scheduler, `volcano_gang_waiting_seconds_count{end="bound",reason="backoff"}`)).Should(Equal("1"))
		Expect(conditionOf(ctx, w.name, late, "GangTimeLimit")()).To(BeEmpty())
	})

	It("in a PodGroup of Koordinator says so there", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-timeout-theirs", 2, "3")
		scheduler := w.start(ctx, w.conf())
		startControllers(ctx, w.name, "")
		seconds := int32(10)
		_, err := ours().PodGroups(w.name).Create(ctx, &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: v1alpha1.PodGroupSpec{MinMember: 3, ScheduleTimeoutSeconds: &seconds},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		members := gang{name: "g", size: 3, min: 3, cpu: "2", pod: written(map[string]string{gangs.PodGroupLabel: "g"}, nil)}
		w.submitPods(ctx, members, 0, 3)
		Eventually(func() string { return objectOf(ctx, w.name, "g").Annotations[tellAnnotation] }).Should(HavePrefix("NotEnoughResources: 2/3 members fit"))
		Eventually(func() string { return objectOf(ctx, w.name, "g").Annotations[tellAnnotation] }).Should(And(
			HavePrefix("GangTimedOut: Not scheduled within 1"), ContainSubstring("(timeout 1)"), ContainSubstring("2/3 members fit")))
		seen, err := shown(ctx, w.name, scheduler, "g")
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Source).To(Equal("scheduling.sigs.k8s.io"))
		Expect(seen.Owner).To(Equal("PodGroup.scheduling.sigs.k8s.io g"))
		Expect(seen.Settings.Mode).To(Equal(gangs.Strict))
		Expect(seen.Members).To(HaveKeyWithValue("pending", 3))
	})

	It("for room that small ones take as soon as there is some has nodes reserved for it", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-starves", 2, "2")
		scheduler := w.start(ctx, starving(w, "0s"))
		large := gang{name: "large", size: 2, min: 2, cpu: "2"}
		made, passed := 0, 0
		var stream []gang
		// flow ends the oldest pod of the stream and adds another: three wait at all times.
		flow := func() {
			for len(stream) < 7 {
				small := gang{name: fmt.Sprintf("small-%d", made), size: 1, min: 1}
				made++
				w.submit(ctx, small)
				stream = append(stream, small)
			}
			for i, small := range stream {
				if w.seen.bound(small) == 1 {
					w.deleteGang(ctx, small)
					passed++
					stream = append(stream[:i:i], stream[i+1:]...)
					return
				}
			}
		}
		for passed < 4 {
			flow()
		}
		Eventually(func() int { return w.seen.bound(stream[0]) }).Should(Equal(1))
		w.submit(ctx, large)

		By("starving it without a reservation")
		for passed < 24 {
			flow()
			Expect(w.seen.everBound(large)).To(BeZero())
		}
		Expect(conditionOf(ctx, w.name, large, "NodeReservation")()).To(BeEmpty())

		By("reserving nodes for it")
		Expect(scheduler.ReplaceConf(starving(w, "3s"))).To(Succeed())
		Eventually(func() string { flow(); return conditionOf(ctx, w.name, large, "NodeReservation")() }).Should(And(HavePrefix("NodesReserved"), ContainSubstring("Reserved 2 nodes")))
		Expect(metricOf(ctx, scheduler, "volcano_gang_node_reservations")()).To(Equal("1"))
		seen, err := shown(ctx, w.name, scheduler, large.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Conditions).To(HaveKeyWithValue("NodeReservation", HaveField("Reason", "NodesReserved")))
		Eventually(func() int { flow(); return w.seen.bound(large) }).Should(Equal(2))
		Eventually(metricOf(ctx, scheduler, `volcano_gang_node_reservations_ended_total{end="placed"}`)).Should(Equal("1"))
		Expect(metricOf(ctx, scheduler, "volcano_gang_node_reservations")()).To(Equal("0"))

		By("letting the stream go on once it has ended")
		w.deleteGang(ctx, large)
		before := passed
		Eventually(func() int { flow(); return passed }).Should(BeNumerically(">", before+4))
	})
})
