// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/history"
)

// specLabel is on the nodes of a spec, with the name of its testEnv.
const specLabel = "e2e.volcano-prebind.io/world"

// testEnv has the objects of one spec.
type testEnv struct {
	// name is the name of the namespace and of the pods' scheduler, and the beginning of the nodes' names.
	name       string
	plugins    testPlugins
	seen       observed
	schedulers []*controlplane.Scheduler
}

// testPlugins are the test's plugins and its provisioner, which read their orders in the directory and write a journal
// there.
type testPlugins struct{ control.Dir }

// newTestEnv creates a namespace, and nodes with this number of CPUs. They are deleted after the spec.
func newTestEnv(ctx context.Context, name string, nodes int, cpu string) *testEnv {
	GinkgoHelper()
	w := &testEnv{name: "e2e-" + name, plugins: testPlugins{control.Dir(GinkgoT().TempDir())}}
	_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.end)
	recording, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	w.seen = observed{w.name, history.Start(recording, kube, vc, w.name)}
	w.addNodes(ctx, 0, nodes, cpu)
	Eventually(func() error {
		_, err := kube.CoreV1().ServiceAccounts(w.name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}, controllersPatience).Should(Succeed())
	return w
}

// addNodes creates count nodes, numbered from first.
func (w *testEnv) addNodes(ctx context.Context, first, count int, cpu string) {
	GinkgoHelper()
	Expect(cp.CreateNodes(ctx, controlplane.NodeShape{
		Count: count, First: first, Prefix: w.name + "-", CPU: cpu, Labels: map[string]string{specLabel: w.name},
	})).To(Succeed())
}

func (w *testEnv) node(i int) string { return fmt.Sprintf("%s-%04d", w.name, i) }

// start runs the test's scheduler with the configuration, for the pods and nodes of this testEnv.
func (w *testEnv) start(ctx context.Context, conf string) *controlplane.Scheduler {
	GinkgoHelper()
	return w.startWith(ctx, controlplane.SchedulerOptions{Conf: conf})
}

// startBehind does the same as start behind a proxy.
func (w *testEnv) startBehind(ctx context.Context, proxy *faultproxy.Proxy, conf string) *controlplane.Scheduler {
	GinkgoHelper()
	return w.startWith(ctx, controlplane.SchedulerOptions{Conf: conf, Server: proxy.URL()})
}

func (w *testEnv) startWith(ctx context.Context, opts controlplane.SchedulerOptions) *controlplane.Scheduler {
	GinkgoHelper()
	opts.Name = w.name
	if opts.Binary == "" {
		opts.Binary = binaries + "/e2e-scheduler"
	}
	opts.Args = append([]string{
		"--scheduler-name=" + w.name, "--node-selector=" + specLabel + ":" + w.name,
		"--leader-elect-resource-name=" + w.name, "-v=3",
	}, opts.Args...)
	scheduler, err := cp.StartScheduler(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	w.schedulers = append(w.schedulers, scheduler)
	return scheduler
}

// startProxy starts a fault proxy that ends with the spec.
func startProxy() *faultproxy.Proxy {
	GinkgoHelper()
	proxy, err := cp.StartFaultProxy()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	return proxy
}

// conf returns a configuration with upstream's usual plugins and then the test's own plugins, which get the directory
// of orders.
func (w *testEnv) conf(plugins ...string) string {
	return w.confWith("enqueue, allocate, backfill", "", plugins...)
}

// confWith returns conf with other actions and with further arguments of the test's plugins, indented by six.
func (w *testEnv) confWith(actions, arguments string, plugins ...string) string {
	// Without binpack, specs decide themselves which of two nodes is better.
	conf := strings.NewReplacer("enqueue, allocate, backfill", actions, "  - name: binpack\n", "").Replace(config.DefaultConf)
	if len(plugins) > 0 {
		conf += "- plugins:\n"
	}
	for _, plugin := range plugins {
		conf += fmt.Sprintf("  - name: %s\n    arguments:\n      control: %s\n%s", plugin, w.plugins.Dir, arguments)
	}
	return conf
}

// end deletes all objects that could affect another spec. The deletion of the namespace ends later.
func (w *testEnv) end(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		w.printState()
	}
	for _, scheduler := range w.schedulers {
		Expect(scheduler.Kill9()).To(Succeed())
	}
	everything, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	Expect(vc.SchedulingV1beta1().PodGroups(w.name).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.CoreV1().Pods(w.name).DeleteCollection(ctx, now, everything)).To(Succeed())
	Expect(kube.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{LabelSelector: specLabel + "=" + w.name})).To(Succeed())
	Expect(kube.CoreV1().Namespaces().Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
	select {
	case err := <-cp.Dead():
		Expect(err).NotTo(HaveOccurred(), "a process ended by itself")
	default:
	}
}

// noise matches frequent log lines that are of no interest.
var noise = regexp.MustCompile(`reflector\.go|FLAG:|statement\.go|event_handlers\.go`)

// printState prints the available information on a failed spec.
func (w *testEnv) printState() {
	for _, scheduler := range w.schedulers {
		fmt.Fprintf(GinkgoWriter, "--- log of %s\n", scheduler.Name())
		for line := range strings.Lines(scheduler.LogTail(300)) {
			if !noise.MatchString(line) {
				fmt.Fprint(GinkgoWriter, line)
			}
		}
	}
	if w.seen.History == nil {
		return
	}
	pods := w.seen.Pods()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return int(history.Version(a)) - int(history.Version(b)) })
	for _, pod := range pods {
		fmt.Fprintf(GinkgoWriter, "pod %s on %q, %s, %v\n", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Annotations)
	}
	journal, err := w.plugins.Journal()
	fmt.Fprintf(GinkgoWriter, "journal (%d entries, %v):\n", len(journal), err)
	for _, entry := range journal[max(0, len(journal)-60):] {
		fmt.Fprintln(GinkgoWriter, entry)
	}
}

// order gives an order to a plugin of the test.
func (p testPlugins) order(plugin, object string, verb control.Verb) {
	GinkgoHelper()
	Expect(p.Order(plugin, object, verb)).To(Succeed())
}

func (p testPlugins) revoke(plugin, object string, verb control.Verb) {
	GinkgoHelper()
	Expect(p.Revoke(plugin, object, verb)).To(Succeed())
}

// seconds formats a duration for a scheduler's flag.
func seconds(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) }
