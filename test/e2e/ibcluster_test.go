// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// clusterLabel is on a node with the name of its InfiniBand cluster.
	clusterLabel = "ibcluster"
	// modeAnnotation states whether a gang requires one cluster, prefers one, or neither.
	modeAnnotation = "ibcluster.volcano-prebind.io/mode"
	// clustersAnnotation lists the clusters that a gang may use.
	clustersAnnotation = "ibcluster.volcano-prebind.io/clusters"
	// inClusters is appended to a configuration.
	inClusters = `- plugins:
  - name: ibcluster
    arguments:
      ibcluster.levels: [` + clusterLabel + `]
`
)

var _ = Describe("A gang that must share an InfiniBand cluster", func() {
	It("lands whole where it fits best, and says of each cluster why it does not fit there", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-fit", 0, "1")
		w.addCluster(ctx, "a", 0, 2, "2")
		w.addCluster(ctx, "b", 2, 2, "3")
		w.addCluster(ctx, "c", 4, 2, "4")
		scheduler := w.start(ctx, w.conf()+inClusters)
		large := required(gang{name: "large", size: 7, min: 7})
		w.submit(ctx, large)
		w.seen.eventuallyIn(large, 7, "c")

		By("taking the tightest of two clusters")
		small := required(gang{name: "small", size: 3, min: 3})
		w.submit(ctx, small)
		w.seen.eventuallyIn(small, 3, "a")

		By("waiting for room as a whole when there is room for all in no cluster, but in all of them together")
		none := required(gang{name: "none", size: 7, min: 7})
		w.submit(ctx, none)
		w.seen.eventuallyFailed(none, "NotEnoughResources", "a 1/7", "b 6/7", "c 1/7", "short of cpu")
		Expect(len(w.seen.unschedulable(none).Message)).To(BeNumerically("<", 1024))
		Eventually(func() string { return w.seen.eventMessages("PodGroup", none.name) }).Should(ContainSubstring("b 6/7"))
		for _, pod := range none.pods() {
			Eventually(func() string { return w.seen.scheduled(pod).Message }).Should(ContainSubstring("b 6/7"), "condition of pod %s", pod)
		}

		By("answering the same in full on the debug endpoint")
		var told []explanation
		Eventually(func() (int, error) {
			var err error
			told, err = explanations(ctx, scheduler)
			return len(told), err
		}).Should(Equal(1))
		Expect(told[0]).To(And(HaveField("PodGroup", none.name), HaveField("Needed", 7), HaveField("Required", true)))
		fits, filled := map[string]int{}, map[string]int{}
		for _, group := range told[0].Groups {
			fits[group.Group] = group.Fits
			Expect(group.Nodes).To(Equal(2))
			filled[group.Group] = group.Filled
			Expect(group.Reasons["short of cpu"]+group.Filled).To(Equal(2), "reasons of cluster %s", group.Group)
		}
		Expect(filled).To(Equal(map[string]int{"a": 1, "b": 2, "c": 1}))
		Expect(fits).To(Equal(map[string]int{"a": 1, "b": 6, "c": 1}))

		By("writing nothing while nothing changes")
		versions := w.seen.versions(none)
		Consistently(func() map[string]uint64 { return w.seen.versions(none) }, 3*time.Second).Should(Equal(versions))

		By("being bound once a cluster has room for all")
		w.deleteGang(ctx, large)
		w.seen.eventuallyIn(none, 7, "c")
		w.seen.eventuallyRunning(none)
		Eventually(func() any { return w.seen.unschedulable(none) }).Should(BeNil())
		Eventually(func() ([]explanation, error) { return explanations(ctx, scheduler) }).Should(BeEmpty())
	})

	It("finds no cluster where taints, cordons and running pods leave room on paper only", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-spoilt", 0, "1")
		for i, cluster := range []string{"a", "b", "c"} {
			w.addCluster(ctx, cluster, 2*i, 2, "4")
		}
		patchNode(ctx, w.node(0), `{"spec":{"taints":[{"key":"maintenance","effect":"NoSchedule"}]}}`)
		patchNode(ctx, w.node(2), `{"spec":{"unschedulable":true}}`)
		w.start(ctx, w.conf()+inClusters)
		running := gang{name: "running", size: 1, min: 1, cpu: "2", pod: func(_ int, pod *corev1.Pod) {
			pod.Spec.NodeSelector[corev1.LabelHostname] = w.node(4)
		}}
		w.submit(ctx, running)
		w.seen.eventuallyBound(running, 1)
		// Each cluster has 4 CPUs or more, on a node with 4 CPUs and one that cannot be used.
		g := required(gang{name: "g", size: 3, min: 3, cpu: "2"})
		w.submit(ctx, g)
		w.seen.eventuallyIn(g, 3, "c")
		next := required(gang{name: "next", size: 3, min: 3, cpu: "2"})
		w.submit(ctx, next)
		w.seen.eventuallyFailed(next, "NotEnoughResources", `a 2/3: 1 node tainted "maintenance", 1 filled by its members (cpu)`, "b 2/3: 1 node cordoned, 1 filled by its members (cpu)", "c 0/3: 2 nodes short of cpu")
		Expect(w.seen.everBound(next)).To(BeZero())
		patchNode(ctx, w.node(2), `{"spec":{"unschedulable":false}}`)
		w.seen.eventuallyIn(next, 3, "b")
	})

	It("moves whole to another cluster when its pre-bind fails in the first", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-move", 0, "1")
		for i, cluster := range []string{"a", "b", "c"} {
			w.addCluster(ctx, cluster, 2*i, 2, "4")
		}
		w.start(ctx, w.conf("first", "second")+inClusters)
		g := required(gang{name: "g", size: 8, min: 8})
		w.plugins.order("second", w.node(1), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 8)
		Expect(w.seen.clustersOf(g)).To(Or(Equal([]string{"b"}), Equal([]string{"c"})))
		w.seen.eventuallyRunning(g)
		for _, pod := range g.pods() {
			nodes := map[string]bool{}
			for _, version := range w.seen.PodVersions(pod) {
				nodes[version.Spec.NodeName] = true
			}
			delete(nodes, "")
			Expect(nodes).To(HaveLen(1), "nodes that pod %s was bound to", pod)
		}
		w.seen.expectStagedAtomically(g, "first", "second")
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("is not bound to a node that leaves its cluster before the bind, and goes whole where it still can", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-leave", 0, "1")
		w.addCluster(ctx, "a", 0, 2, "9")
		w.addCluster(ctx, "b", 2, 2, "11")
		w.start(ctx, w.conf("first")+inClusters)
		// Four of its members fill a node, so both nodes of the tighter cluster get some.
		g := required(gang{name: "g", size: 6, min: 6, cpu: "2"})
		w.plugins.order("first", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "first", g.member(0)) }).Should(Equal(1))
		patchNode(ctx, w.node(1), fmt.Sprintf(`{"metadata":{"labels":{%q:"z"}}}`, clusterLabel))

		By("waiting until the scheduler has seen it")
		probe := gang{name: "probe", size: 1, min: 1, cpu: "100m", podGroup: func(pg *v1beta1.PodGroup) {
			metav1.SetMetaDataAnnotation(&pg.ObjectMeta, clustersAnnotation, "z")
		}}
		w.submit(ctx, probe)
		w.seen.eventuallyIn(probe, 1, "z")
		Expect(w.seen.everBound(g)).To(BeZero())

		By("going on")
		w.plugins.revoke("first", g.member(0), control.Hang)
		Eventually(func() string { return w.seen.eventMessages("PodGroup", g.name) }).Should(
			And(ContainSubstring("plugin ibcluster"), ContainSubstring("moved from a to z (by its label "+clusterLabel+") after the gang was placed")))
		w.seen.eventuallyIn(g, 6, "b")
		w.seen.eventuallyRunning(g)
		for _, pod := range g.pods() {
			for _, version := range w.seen.PodVersions(pod) {
				Expect(version.Spec.NodeName).To(Or(BeEmpty(), Equal(w.node(2)), Equal(w.node(3))), "node of pod %s", pod)
			}
		}
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("grows in the cluster where it runs, and waits there when that is full", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-grow", 0, "1")
		w.addCluster(ctx, "a", 0, 2, "3")
		w.addCluster(ctx, "b", 2, 2, "2")
		w.start(ctx, w.conf()+inClusters)
		g := required(gang{name: "g", size: 6, min: 4})
		w.submitGroup(ctx, g)
		// Both clusters can take four members. Cluster a has room for more than that, and b is the tighter one.
		filler := gang{name: "filler", size: 1, min: 1, pod: func(_ int, pod *corev1.Pod) {
			pod.Spec.NodeSelector[corev1.LabelHostname] = w.node(2)
		}}
		w.submit(ctx, filler)
		w.seen.eventuallyBound(filler, 1)
		w.submitPods(ctx, g, 0, 4)
		w.seen.eventuallyIn(g, 4, "a")
		w.seen.eventuallyRunning(g)
		// Now b is the emptier one.
		w.deleteGang(ctx, filler)

		By("adding members beyond the minimum")
		w.submitPods(ctx, g, 4, 6)
		w.seen.eventuallyIn(g, 6, "a")

		By("keeping members waiting that the cluster has no room for, though others have")
		more := g
		more.size = 8
		w.submitPods(ctx, more, 6, 8)
		for _, pod := range []string{more.member(6), more.member(7)} {
			Eventually(func() string { return w.seen.scheduled(pod).Message }).Should(
				And(ContainSubstring("2 further members wait: a: "), ContainSubstring("the gang's pods are in a")), "condition of pod %s", pod)
		}
		Consistently(func() int { return w.seen.bound(more) }).Should(Equal(6))
		Expect(w.seen.phase(g)).To(Equal(v1beta1.PodGroupRunning))

		By("putting them where a member has left")
		w.deletePod(ctx, g.member(0))
		w.deletePod(ctx, g.member(1))
		for _, pod := range []string{more.member(6), more.member(7)} {
			Eventually(func() string { return w.seen.Pod(pod).Spec.NodeName }).ShouldNot(BeEmpty(), "node of pod %s", pod)
		}
		Expect(w.seen.clustersOf(more)).To(Equal([]string{"a"}))
	})

	It("reports what is wrong with its annotations, and waits until they are right", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-wrong", 0, "1")
		w.addCluster(ctx, "a", 0, 1, "4")
		w.start(ctx, w.conf()+inClusters)
		g := gang{name: "g", size: 2, min: 2, podGroup: func(pg *v1beta1.PodGroup) {
			metav1.SetMetaDataAnnotation(&pg.ObjectMeta, modeAnnotation, "requierd")
		}}
		w.submit(ctx, g)
		Eventually(func() string { return w.seen.eventMessages("PodGroup", g.name) }).Should(And(ContainSubstring(modeAnnotation), ContainSubstring(`"requierd"`)))
		Consistently(func() int { return w.seen.everBound(g) }).Should(BeZero())
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"required"}}}`, modeAnnotation)
		_, err := vc.SchedulingV1beta1().PodGroups(w.name).Patch(ctx, g.name, types.MergePatchType, patch, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		w.seen.eventuallyIn(g, 2, "a")
	})
})

var _ = Describe("A gang that should share an InfiniBand cluster", func() {
	It("lies in the fewest clusters that hold it", func(ctx SpecContext) {
		w := newTestEnv(ctx, "ib-prefer", 0, "1")
		for i, cluster := range []string{"a", "b", "c"} {
			w.addCluster(ctx, cluster, 2*i, 2, "4")
		}
		w.start(ctx, w.conf()+inClusters)
		g := withMode(gang{name: "g", size: 10, min: 10}, "preferred")
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 10)
		Expect(w.seen.clustersOf(g)).To(HaveLen(2))
	})
})

// addCluster creates an InfiniBand cluster of nodes with this number of CPUs, numbered from first.
func (w *testEnv) addCluster(ctx context.Context, name string, first, count int, cpu string) {
	GinkgoHelper()
	Expect(cp.CreateNodes(ctx, controlplane.NodeShape{
		Count: count, First: first, Prefix: w.name + "-", CPU: cpu, Labels: map[string]string{specLabel: w.name, clusterLabel: name},
	})).To(Succeed())
}

func patchNode(ctx context.Context, name, patch string) {
	GinkgoHelper()
	_, err := kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// required makes the gang require one cluster.
func required(g gang) gang { return withMode(g, "required") }

func withMode(g gang, mode string) gang {
	g.podGroup = func(pg *v1beta1.PodGroup) { metav1.SetMetaDataAnnotation(&pg.ObjectMeta, modeAnnotation, mode) }
	return g
}

// clustersOf returns the clusters of the nodes with the gang's pods, sorted.
func (o observed) clustersOf(g gang) []string {
	GinkgoHelper()
	var nodes []string
	for _, name := range g.pods() {
		if pod := o.Pod(name); pod != nil && pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return o.clustersOfNodes(nodes)
}

// clustersOfNodes returns the clusters of the nodes, sorted.
func (o observed) clustersOfNodes(names []string) []string {
	GinkgoHelper()
	nodes, err := kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{LabelSelector: specLabel + "=" + o.namespace})
	Expect(err).NotTo(HaveOccurred())
	var clusters []string
	for _, node := range nodes.Items {
		if cluster := node.Labels[clusterLabel]; slices.Contains(names, node.Name) && !slices.Contains(clusters, cluster) {
			clusters = append(clusters, cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// eventuallyIn waits until n of the gang's pods are bound, and expects all of them in the cluster.
func (o observed) eventuallyIn(g gang, n int, cluster string) {
	GinkgoHelper()
	o.eventuallyBound(g, n)
	Expect(o.clustersOf(g)).To(Equal([]string{cluster}), "clusters of gang %s", g.name)
}

// eventMessages returns the messages of all events about an object.
func (o observed) eventMessages(kind, name string) string {
	var b strings.Builder
	for _, event := range o.Events(kind, name, "") {
		fmt.Fprintf(&b, "%s: %s\n", event.Reason, event.Message)
	}
	return b.String()
}

// explanation is the answer of the debug endpoint about a gang.
type explanation struct {
	Namespace, PodGroup string
	Needed              int
	Required            bool
	Groups              []struct {
		Group       string
		Fits, Nodes int
		Filled      int
		Reasons     map[string]int
	}
}

// explanations reads the debug endpoint.
func explanations(ctx context.Context, scheduler *controlplane.Scheduler) ([]explanation, error) {
	url := strings.TrimSuffix(scheduler.MetricsURL(), "/metrics") + "/debug/nodegroups"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var out []explanation
	return out, json.NewDecoder(response.Body).Decode(&out)
}
