// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// outageRounds is the environment variable with the number of outages.
	outageRounds        = "E2E_OUTAGE_ROUNDS"
	defaultOutageRounds = 3
	// kubeletPause is how long a kubelet waits before it starts a container again.
	kubeletPause = time.Second
	// soonAfterOutage is the time in which all gangs must be bound once the API server has returned and the last gang
	// is submitted. On a loaded machine the submission alone takes seconds.
	soonAfterOutage = 5 * time.Second
	// madeAfterOutage is the time limit for gangs whose PodGroups or pods vc-controller-manager creates. madeGangs is
	// the number of gangs of each kind, with 10 members each.
	madeAfterOutage = 10 * time.Second
	madeGangs       = 5
	// slowdown is how many times longer the gangs may take after an outage than before, on a machine so loaded that
	// this exceeds the limits above. Three batches of gangs are submitted at once then.
	slowdown = 4
	// jobPrefix and notePrefix are the beginnings of their names.
	jobPrefix, notePrefix = "job", "noted"
)

// outages are the lengths of the API server's outages, one per round. The middle one and the last exceed the lease
// duration.
var outages = []time.Duration{5 * time.Second, 30 * time.Second, time.Minute}

var _ = Describe("After an outage of the API server", func() {
	It("gangs are bound within 5 s of the last submission and 10 s of its return, also those that were being bound, with leader election and without, and within 10 s "+
		"vcjobs and gangs that are written in annotations", func(ctx SpecContext) {
		rounds := defaultOutageRounds
		if text := os.Getenv(outageRounds); text != "" {
			var err error
			rounds, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred(), outageRounds)
		}
		DeferCleanup(renewControllers)
		alone, elected := newTestEnv(ctx, "outage", 10, "40"), newTestEnv(ctx, "outage-elected", 10, "40")
		alone.start(ctx, alone.conf("first"))
		elected.startWith(ctx, controlplane.SchedulerOptions{Conf: elected.conf("first"), LeaderElect: true, Env: []string{"POD_UID=the-pod"}})
		startControllers(ctx, alone.name, "")
		worlds := []*testEnv{alone, elected}
		// usual is the longest time that a batch of gangs takes without an outage.
		var usual time.Duration
		measure := func(w *testEnv, submit func(), bound func()) {
			began := time.Now()
			submit()
			bound()
			usual = max(usual, time.Since(began))
			deleteAllGangs(ctx, w.name)
		}
		for _, w := range worlds {
			keepRunning(ctx, w)
			measure(w, func() { submitGangs(ctx, w, "g", 10) }, func() { Eventually(unbound).WithContext(ctx).WithArguments(w.name).Should(BeEmpty()) })
		}
		measure(alone, func() { submitToControllers(ctx, alone) }, func() {
			Eventually(boundOfControllers, time.Minute).WithContext(ctx).WithArguments(alone.name).Should(Equal(2 * madeGangs * 10))
		})
		soon, made := max(soonAfterOutage, slowdown*usual/2), max(madeAfterOutage, slowdown*usual)
		for round := range rounds {
			away := outages[round%len(outages)]
			for _, w := range worlds {
				prepareGangs(ctx, w)
			}
			for _, w := range worlds {
				Expect(w.plugins.Revoke("first", control.Anything, control.Hang)).To(Succeed())
			}
			Expect(cp.Kill(controlplane.APIServer)).To(Succeed())
			select {
			case <-time.After(away):
			case <-ctx.Done():
			}
			Expect(cp.Restart(ctx, controlplane.APIServer)).To(Succeed())
			back := time.Now()
			var all sync.WaitGroup
			all.Go(func() {
				defer GinkgoRecover()
				submitToControllers(ctx, alone)
				submitted := time.Since(back)
				Eventually(boundOfControllers, 3*time.Minute, 50*time.Millisecond).WithContext(ctx).WithArguments(alone.name).Should(Equal(2*madeGangs*10), func() string {
					return fmt.Sprintf("bound pods in round %d; %s", round, gangsOfControllers(ctx, alone.name))
				})
				took := time.Since(back)
				told := fmt.Sprintf("round %d, vcjobs and annotated gangs: after %v all are bound in %v, the last was submitted after %v",
					round, away, took.Round(10*time.Millisecond), submitted.Round(10*time.Millisecond))
				AddReportEntry(told)
				GinkgoWriter.Println(told)
				Expect(took).To(BeNumerically("<", made), told)
			})
			for _, w := range worlds {
				all.Go(func() {
					defer GinkgoRecover()
					kind := "without"
					if w == elected {
						kind = "with"
					}
					submitGangs(ctx, w, "g", 10)
					submitted := time.Since(back)
					Eventually(unbound, time.Minute, 50*time.Millisecond).WithContext(ctx).WithArguments(w.name).Should(BeEmpty(), "pods that wait in round %d", round)
					took := time.Since(back)
					told := fmt.Sprintf("round %d, %s leader election: after %v all are bound in %v, the last was submitted after %v",
						round, kind, away, took.Round(10*time.Millisecond), submitted.Round(10*time.Millisecond))
					AddReportEntry(told)
					GinkgoWriter.Println(told)
					Expect(took-submitted).To(BeNumerically("<", soon), told)
					Expect(took).To(BeNumerically("<", made), told)
				})
			}
			all.Wait()
			for _, w := range worlds {
				deleteAllGangs(ctx, w.name)
			}
		}
	})
})

// keepRunning restarts the testEnv's scheduler whenever it ends, as a kubelet would. It ends with the spec.
func keepRunning(ctx context.Context, w *testEnv) {
	ctx, stop := context.WithCancel(ctx)
	var kubelet sync.WaitGroup
	kubelet.Go(func() {
		defer GinkgoRecover()
		for {
			last := len(w.schedulers) - 1
			scheduler := w.schedulers[last]
			select {
			case <-ctx.Done():
				return
			case <-scheduler.Exited():
			}
			Eventually(cp.Dead()).WithContext(ctx).Should(Receive(), "it ended by itself")
			select {
			case <-ctx.Done():
				return
			case <-time.After(kubeletPause):
			}
			next, err := scheduler.Restart()
			Expect(err).NotTo(HaveOccurred())
			w.schedulers[last] = next
		}
	})
	DeferCleanup(func() {
		stop()
		kubelet.Wait()
	})
}

// submitGangs submits gangs of 10 pods, named after the prefix.
func submitGangs(ctx context.Context, w *testEnv, prefix string, gangs int) {
	GinkgoHelper()
	for i := range gangs {
		w.submit(ctx, gang{name: fmt.Sprintf("%s%d", prefix, i), size: 10, min: 10})
	}
}

// prepareGangs submits gangs, and returns once their transactions are in flight: a step of each pod has left its
// trace and hangs until its order is revoked. An outage of the API server then leaves the gangs in every possible
// state.
func prepareGangs(ctx context.Context, w *testEnv) {
	GinkgoHelper()
	const gangs = 5
	Expect(w.plugins.Order("first", control.Anything, control.Hang)).To(Succeed())
	submitGangs(ctx, w, "early", gangs)
	Eventually(func() (int, error) {
		traces, err := kube.CoreV1().ConfigMaps(w.name).List(ctx, metav1.ListOptions{LabelSelector: control.PluginLabel + "=first"})
		return len(traces.Items), err
	}).WithContext(ctx).Should(Equal(10*gangs), "pods that are being prepared")
}

// unbound returns the names of unbound pods in the API server. The test's own watch needs time to recover after an
// outage.
func unbound(ctx context.Context, namespace string) ([]string, error) {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods.Items {
		if !ofControllers(pod.Name) {
			names = append(names, pod.Name)
		}
	}
	return names, nil
}

// submitToControllers submits vcjobs, and gangs that are declared in annotations.
func submitToControllers(ctx context.Context, w *testEnv) {
	GinkgoHelper()
	const size = 10
	for i := range madeGangs {
		noted := fmt.Sprintf("%s%d", notePrefix, i)
		w.submitPods(ctx, gang{name: noted, size: size, min: size, pod: annotated(noted, size)}, 0, size)
		template := corev1.PodTemplateSpec{Spec: w.podOf(gang{name: "job"}, 0).Spec}
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := vc.BatchV1alpha1().Jobs(w.name).Create(ctx, &batchv1alpha1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", jobPrefix, i), Namespace: w.name},
			Spec: batchv1alpha1.JobSpec{
				MinAvailable: size, SchedulerName: w.name,
				Tasks: []batchv1alpha1.TaskSpec{{Name: "worker", Replicas: size, Template: template}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// boundOfControllers returns the number of their bound pods.
func boundOfControllers(ctx context.Context, namespace string) (int, error) {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		return 0, err
	}
	bound := 0
	for _, pod := range pods.Items {
		if ofControllers(pod.Name) {
			bound++
		}
	}
	return bound, nil
}

// gangsOfControllers returns a description of their state.
func gangsOfControllers(ctx context.Context, namespace string) string {
	var all []string
	podGroups, err := vc.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, g := range podGroups.Items {
		if ofControllers(g.Name) {
			all = append(all, fmt.Sprintf("%s %s", g.Name, g.Status.Phase))
		}
	}
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; ofControllers(pod.Name) && pod.Spec.NodeName == "" {
			all = append(all, fmt.Sprintf("%s of PodGroup %q unbound", pod.Name, pod.Annotations[schedulingv1beta1.KubeGroupNameAnnotationKey]))
		}
	}
	return strings.Join(all, ", ")
}

func ofControllers(pod string) bool {
	return strings.HasPrefix(pod, jobPrefix) || strings.HasPrefix(pod, notePrefix)
}

// deleteAllGangs deletes all gangs of the namespace and waits until they do not exist.
func deleteAllGangs(ctx context.Context, namespace string) {
	GinkgoHelper()
	everything, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	Expect(vc.BatchV1alpha1().Jobs(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(vc.SchedulingV1beta1().PodGroups(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.CoreV1().Pods(namespace).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, now, metav1.ListOptions{LabelSelector: control.PluginLabel})).To(Succeed())
	Eventually(func() (int, error) {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, everything)
		return len(pods.Items), err
	}).Should(BeZero(), "pods that are left")
}
