// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// firstSnapshot matches the numbers of jobs and nodes that a cycle sees.
var firstSnapshot = regexp.MustCompile(`"Snapshot for a session" logger="cache" jobs=(\d+) queues=\d+ nodes=(\d+)`)

var _ = Describe("A gang", func() {
	It("that fits is bound as a whole and runs", func(ctx SpecContext) {
		w := newTestEnv(ctx, "happy", 2, "2")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 4, min: 4}
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		w.seen.expectStagedAtomically(g, "first", "second")
		w.seen.expectNoLeaks(ctx, "first", "second")
		for _, pod := range g.pods() {
			Expect(w.plugins.journalOf(pod)).To(Equal([]string{"prebind first", "prebind second"}))
			Eventually(func() int { return w.seen.eventCount("Pod", pod, "Scheduled") }).Should(Equal(1))
		}
	})

	It("submitted to an idle cluster is bound without waiting for a period", func(ctx SpecContext) {
		w := newTestEnv(ctx, "idle", 2, "8")
		// With a period this long, only changes start cycles.
		w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.conf(), Args: []string{"--schedule-period=1h"}})
		warm := gang{name: "warm", size: 1, min: 1}
		w.submit(ctx, warm)
		w.seen.eventuallyRunning(warm)
		for _, name := range []string{"a", "b", "c"} {
			g := gang{name: name, size: 4, min: 4}
			w.submit(ctx, g)
			submitted := time.Now()
			w.seen.eventuallyBound(g, g.size)
			AddReportEntry("bound after the last pod was created", time.Since(submitted))
		}
	})

	It("reaches the minimum of every task or no pod is bound", func(ctx SpecContext) {
		w := newTestEnv(ctx, "min-task", 1, "8")
		w.start(ctx, w.conf("first"))
		g := gang{
			name: "g", size: 4, min: 3,
			podGroup: func(pg *v1beta1.PodGroup) {
				pg.Spec.MinTaskMember = map[string]int32{"ps": 1, "worker": 2}
			},
			pod: func(i int, pod *corev1.Pod) {
				if i == 0 {
					role(pod, "ps")
				} else {
					role(pod, "worker")
				}
			},
		}
		// Three workers pass, as many as minMember, but no parameter server does.
		w.plugins.order("first", g.member(0), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "first", g.member(0), w.node(0), `minTaskMember 1 of "ps"`)
		Expect(w.seen.everBound(g)).To(BeZero())
		w.plugins.revoke("first", g.member(0), control.Fail)
		// One worker may be missing, but not a second one.
		w.plugins.order("first", g.member(1), control.Fail)
		w.touch(ctx, g)
		w.seen.eventuallyBound(g, 3)
		w.plugins.revoke("first", g.member(1), control.Fail)
		w.seen.eventuallyBound(g, 4)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("reaches the minimum of whole sub-groups or no pod is bound", func(ctx SpecContext) {
		w := newTestEnv(ctx, "sub-group", 1, "8")
		w.start(ctx, w.conf("first"))
		const replica = "e2e.volcano-prebind.io/replica"
		g := gang{
			name: "g", size: 4, min: 2,
			podGroup: func(pg *v1beta1.PodGroup) {
				pg.Spec.SubGroupPolicy = []v1beta1.SubGroupPolicySpec{{
					Name: "replicas", SubGroupSize: ptr.To[int32](2), MinSubGroups: ptr.To[int32](2),
					LabelSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: replica, Operator: metav1.LabelSelectorOpExists}}},
					MatchLabelKeys: []string{replica},
				}}
			},
			pod: func(i int, pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, replica, string(rune('a'+i/2))) },
		}
		w.plugins.order("first", g.member(3), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "first", g.member(3), "sub-group")
		Expect(w.seen.everBound(g)).To(BeZero())
		w.plugins.revoke("first", g.member(3), control.Fail)
		w.seen.eventuallyBound(g, 4)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("[startup-race] that needs every node is not judged before the first cycle has seen every node", func(ctx SpecContext) {
		const nodes = 320
		w := newTestEnv(ctx, "startup", nodes, "1")
		g := gang{name: "g", size: nodes, min: nodes}
		w.submit(ctx, g)
		scheduler := w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.conf()})
		w.seen.eventuallyBound(g, nodes)
		log, err := os.ReadFile(scheduler.LogPath())
		Expect(err).NotTo(HaveOccurred())
		first := firstSnapshot.FindStringSubmatch(string(log))
		Expect(first).To(HaveLen(3), "the log line about a snapshot")
		Expect(first[1:]).To(Equal([]string{"1", strconv.Itoa(nodes)}), "jobs and nodes of the first cycle")
		for _, version := range w.seen.PodGroupVersions(g.name) {
			for _, condition := range version.Status.Conditions {
				Expect(condition.Type).NotTo(Equal(v1beta1.PodGroupUnschedulableType), condition.Message)
			}
		}
		Expect(w.seen.Events("PodGroup", g.name, "Unschedulable")).To(BeEmpty())
		Expect(w.seen.Events("Pod", g.member(0), "FailedScheduling")).To(BeEmpty())
	})
})
