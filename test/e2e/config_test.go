// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("The configuration", func() {
	// staged returns the plugins whose steps ran for the gang.
	staged := func(w *testEnv, g gang) []string {
		var plugins []string
		for key := range w.seen.Pod(g.member(0)).Annotations {
			if plugin, ok := strings.CutPrefix(key, control.StagedPrefix); ok {
				plugins = append(plugins, plugin)
			}
		}
		return plugins
	}

	DescribeTable("[unknown-conf-ignored] is reloaded when it is good, and kept when the new one is bad",
		func(ctx SpecContext, name string, layout controlplane.ConfLayout) {
			w := newTestEnv(ctx, name, 1, "8")
			scheduler := w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.conf("first"), Layout: layout})
			reloads := func(result string) func() (string, error) {
				return func() (string, error) {
					text, err := scheduler.Metrics(ctx)
					return metric(string(text), `volcano_scheduler_conf_reloads_total{result="`+result+`"}`), err
				}
			}
			bind := func(name string, plugins ...string) {
				GinkgoHelper()
				g := gang{name: name, size: 1, min: 1}
				w.submit(ctx, g)
				w.seen.eventuallyBound(g, 1)
				Expect(staged(w, g)).To(ConsistOf(plugins))
			}
			bind("a", "first")

			Expect(scheduler.ReplaceConf(w.conf("first", "second"))).To(Succeed())
			Eventually(reloads("ok")).Should(Equal("1"))
			bind("b", "first", "second")

			bad := strings.Replace(w.conf("third"), "name: third", "name: th1rd", 1)
			Expect(scheduler.ReplaceConf(bad)).To(Succeed())
			Eventually(reloads("error")).Should(Equal("1"))
			bind("c", "first", "second")
			Eventually(func() string { return refusals(ctx, w.name) }).Should(And(
				ContainSubstring("line "), ContainSubstring(`th1rd`), ContainSubstring(`third`)))

			Expect(scheduler.ReplaceConf(w.conf("third"))).To(Succeed())
			Eventually(reloads("ok")).Should(Equal("2"))
			bind("d", "third")
			Expect(scheduler.Exited()).NotTo(BeClosed())
		},
		Entry("as a plain file", "conf-file", controlplane.ConfFile),
		Entry("as a mounted ConfigMap", "conf-mount", controlplane.ConfMount),
	)

	It("stays in force when its file is removed or is no longer a file, and this is reported", func(ctx SpecContext) {
		w := newTestEnv(ctx, "conf-gone", 1, "8")
		scheduler := w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.conf("first"), Layout: controlplane.ConfFile})
		Expect(os.Remove(scheduler.ConfPath())).To(Succeed())
		Eventually(func() string { return refusals(ctx, w.name) }).Should(ContainSubstring("no such file"))
		Expect(syscall.Mkfifo(scheduler.ConfPath(), 0o600)).To(Succeed())
		Eventually(func() string { return refusals(ctx, w.name) }).Should(ContainSubstring("not a regular file"))
		text, err := scheduler.Metrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(metric(string(text), `volcano_scheduler_conf_reloads_total{result="error"}`)).To(Equal("2"))
		g := gang{name: "g", size: 1, min: 1}
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 1)
		Expect(staged(w, g)).To(ConsistOf("first"))

		Expect(scheduler.ReplaceConf(w.conf("second"))).To(Succeed())
		Eventually(func() (string, error) {
			text, err := scheduler.Metrics(ctx)
			return metric(string(text), `volcano_scheduler_conf_reloads_total{result="ok"}`), err
		}).Should(Equal("1"))
	})

	It("that is bad at start ends the scheduler with code 1 and says where and what", func(ctx SpecContext) {
		for name, bad := range map[string]struct {
			conf string
			want []string
		}{
			"an unknown plugin":    {"actions: allocate\ntiers:\n- plugins:\n  - name: gnag\n", []string{"line 4", `"gnag"`, `"gang"`}},
			"an unknown action":    {"actions: \"enqueue, alocate\"\n", []string{"line 1", `"alocate"`, `"allocate"`}},
			"an unknown key":       {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enabledPreBind: false\n", []string{"line 5", "enabledPreBind", "enablePreBind"}},
			"an unknown argument":  {"actions: allocate\ntiers:\n- plugins:\n  - name: first\n    arguments: {contol: x}\n", []string{"line 5", "contol", "control"}},
			"a wrong type":         {"actions: allocate\ntiers:\n- plugins:\n  - name: first\n    arguments: {failPercent: many}\n", []string{"line 5", "failPercent", "integer"}},
			"a plugin named twice": {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: gang\n", []string{"line 5", "gang"}},
		} {
			scheduler, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{
				Name: "bad-conf", Binary: filepath.Join(binaries, "e2e-scheduler"), Conf: bad.conf, NoWait: true,
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(scheduler.Wait(ctx)).To(Equal(1), name)
			said := scheduler.LogTail(5)
			for _, want := range bad.want {
				Expect(said).To(ContainSubstring(want), name)
			}
			Eventually(cp.Dead()).Should(Receive(), "it ended by itself, as it should")

			checked, err := exec.CommandContext(ctx, filepath.Join(binaries, "e2e-scheduler"), "--validate-conf="+scheduler.ConfPath()).CombinedOutput()
			Expect(err).To(HaveOccurred(), name)
			Expect(string(checked)).To(ContainSubstring(bad.want[0]), name)
		}
	})
})

// metric returns the value of the named metric in a Prometheus text, or an empty text if the metric is missing.
func metric(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// refusals returns the messages of the events about rejected configurations.
func refusals(ctx SpecContext, schedulerName string) string {
	GinkgoHelper()
	events, err := kube.CoreV1().Events(controlplane.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=ConfigRejected"})
	Expect(err).NotTo(HaveOccurred())
	var messages []string
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == "Lease" && event.InvolvedObject.Name == schedulerName && event.Type == corev1.EventTypeWarning {
			messages = append(messages, event.Message)
		}
	}
	return strings.Join(messages, "\n")
}
