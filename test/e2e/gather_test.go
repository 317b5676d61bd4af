// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	spineLabel = "e2e-spine"
	blockLabel = "e2e-block"
	// spinesAndBlocks is the network of these specs.
	spinesAndBlocks = `
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
  - {topologyLayer: Spine, labelKey: [` + spineLabel + `]}
  - {topologyLayer: Block, parentTopologyLayer: Spine, labelKey: [` + blockLabel + `]}
  - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: Block}
`
	inOneBlock = `{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}`
)

var _ = Describe("A gang that is gathered in the network", func() {
	It("lies in one block by the ranks of its members, or waits and says what blocks take", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gather", 0, "1")
		addBlock(ctx, w, "s1", "b1", 0, "3")
		addBlock(ctx, w, "s1", "b2", 2, "3")
		addBlock(ctx, w, "s2", "b3", 4, "4")
		startControllers(ctx, w.name, "")
		w.start(ctx, w.conf())

		By("waiting for the network to be told")
		first := gathered(gang{name: "first", size: 6, min: 6}, inOneBlock)
		first.pod = func(i int, pod *corev1.Pod) {
			pod.Annotations[gangs.TopologyIndexAnnotation] = fmt.Sprint(5 - i)
		}
		w.submit(ctx, first)
		w.seen.eventuallyFailed(first, "NotEnoughResources", "ClusterNetworkTopology default, which defines the layers of the network, does not exist")
		Expect(w.seen.everBound(first)).To(BeZero())

		By("lying in the tightest block, neighbours in rank on one node")
		Expect(cp.Apply(ctx, []byte(spinesAndBlocks))).To(Succeed())
		DeferCleanup(removeTopology)
		w.seen.eventuallyBound(first, 6)
		Expect(w.seen.nodesOf(first)).To(Equal([]string{w.node(1), w.node(1), w.node(1), w.node(0), w.node(0), w.node(0)}))

		By("waiting as a whole where two blocks would have room, and no block has")
		none := gathered(gang{name: "none", size: 9, min: 9}, inOneBlock)
		w.submit(ctx, none)
		w.seen.eventuallyFailed(none, "NotEnoughResources", "no domain of layer Block fits the 9 members: s2/b3 8, s1/b2 6, s1/b1 0")
		Eventually(func() string { return w.seen.eventMessages("PodGroup", none.name) }).Should(ContainSubstring("s2/b3 8"))
		for _, pod := range none.pods() {
			Eventually(func() string { return w.seen.scheduled(pod).Message }).Should(ContainSubstring("s2/b3 8"), "condition of pod %s", pod)
		}

		By("lying in one block when it is written in its pods' annotations")
		pods := gang{name: "pods", size: 8, pod: written(nil, map[string]string{
			gangs.NameAnnotation: "pods", gangs.MinAvailableAnnotation: "8", gangs.TopologyAnnotation: inOneBlock,
		})}
		w.submitPods(ctx, pods, 0, 8)
		w.seen.eventuallyBound(pods, 8)
		for _, node := range w.seen.nodesOf(pods) {
			Expect(node).To(BeElementOf(w.node(4), w.node(5)))
		}

		By("taking a member that replaces one into the block of the others, though there is room elsewhere")
		w.deletePod(ctx, pods.member(3))
		Eventually(func() *corev1.Pod { return w.seen.Pod(pods.member(3)) }).Should(BeNil())
		w.submitPods(ctx, pods, 3, 4)
		w.seen.eventuallyBound(pods, 8)
		Expect(w.seen.Pod(pods.member(3)).Spec.NodeName).To(BeElementOf(w.node(4), w.node(5)))
		Expect(w.seen.everBound(none)).To(BeZero())
	})
})

func removeTopology(ctx SpecContext) {
	ours, err := versioned.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	Expect(ours.SchedulingV1alpha1().ClusterNetworkTopologies().Delete(ctx, "default", metav1.DeleteOptions{})).To(Succeed())
}

// addBlock adds two nodes to a block of a spine.
func addBlock(ctx context.Context, w *testEnv, spine, block string, first int, cpu string) {
	GinkgoHelper()
	Expect(cp.CreateNodes(ctx, controlplane.NodeShape{
		Count: 2, First: first, Prefix: w.name + "-", CPU: cpu, Labels: map[string]string{specLabel: w.name, spineLabel: spine, blockLabel: block},
	})).To(Succeed())
}

// gathered gives the gang this topology specification.
func gathered(g gang, spec string) gang {
	g.podGroup = func(pg *v1beta1.PodGroup) {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, gangs.TopologyAnnotation, spec)
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, gangs.ModeAnnotation, string(gangs.Strict))
	}
	return g
}

// nodesOf returns the nodes of the gang's pods, in order.
func (o observed) nodesOf(g gang) []string {
	var nodes []string
	for _, name := range g.pods() {
		nodes = append(nodes, o.Pod(name).Spec.NodeName)
	}
	return nodes
}
