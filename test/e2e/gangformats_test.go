// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	typed "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned/typed/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	pluginsLabel   = "scheduling.x-k8s.io/pod-group"
	tellAnnotation = "coscheduling.volcano-prebind.io/message"
)

// pluginsCRD has the parts of scheduler-plugins' CRD that this test needs.
const pluginsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: scheduling.x-k8s.io
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {minMember: {type: integer, minimum: 1}, scheduleTimeoutSeconds: {type: integer}}}
          status:
            type: object
            properties: {phase: {type: string}, occupiedBy: {type: string}, running: {type: integer}, succeeded: {type: integer}, failed: {type: integer}, scheduleStartTime: {type: string}}
`

var _ = Describe("A gang written", func() {
	It("in any of the ways is bound whole or not at all, and goes with its pods", func(ctx SpecContext) {
		Expect(cp.Apply(ctx, []byte(pluginsCRD))).To(Succeed())
		w := newTestEnv(ctx, "gang-ways", 4, "4")
		startControllers(ctx, w.name, "")
		w.start(ctx, w.conf())
		said := func(name string) map[string]string {
			return map[string]string{gangs.NameAnnotation: name, gangs.MinAvailableAnnotation: "3"}
		}
		ways := map[string]struct{ labels, annotations map[string]string }{
			"annotations": {annotations: said("annotations")},
			"old-labels":  {labels: map[string]string{gangs.OldNameLabel: "old-labels", gangs.OldMinLabel: "3"}},
			"object":      {labels: map[string]string{gangs.PodGroupLabel: "object"}},
			"plugins":     {labels: map[string]string{pluginsLabel: "plugins"}},
		}
		createObject(ctx, w.name, "object", 3)
		Eventually(func() error {
			return cp.Apply(ctx, []byte(fmt.Sprintf("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: plugins, namespace: %s}\nspec: {minMember: 3}", w.name)))
		}).Should(Succeed())
		all := map[string]gang{}
		for name, way := range ways {
			g := gang{name: name, size: 3, min: 3, pod: written(way.labels, way.annotations)}
			all[name] = g
			w.submitPods(ctx, g, 0, 2)
		}
		for name, g := range all {
			By("handing over the pods of " + name)
			Eventually(func() string { return w.seen.groupOf(g.member(0)) }, time.Minute).Should(Equal(name))
		}
		Consistently(func() int { return boundOf(w.seen, all) }).Should(BeZero(), "pods of gangs that are not all there")
		for name, g := range all {
			w.submitPods(ctx, g, 2, 3)
			By("binding " + name)
			w.seen.eventuallyBound(g, 3)
			w.seen.eventuallyRunning(g)
		}
		Eventually(func() v1alpha1.PodGroupPhase { return objectOf(ctx, w.name, "object").Status.Phase }).Should(Equal(v1alpha1.PodGroupRunning))
		status := objectOf(ctx, w.name, "object").Status
		Expect(status.Scheduled).To(BeEquivalentTo(3))
		Expect(status.ScheduleStartTime).NotTo(BeNil())

		By("writing nothing when another process goes on, as after a change of the leader")
		startControllers(ctx, w.name, "-renewed")
		versions := func() map[string]uint64 {
			now := map[string]uint64{}
			for _, g := range all {
				maps.Copy(now, w.seen.versions(g))
			}
			return now
		}
		before := versions()
		Consistently(versions).Should(Equal(before))

		By("deleting the pods")
		for _, pod := range all["annotations"].pods() {
			w.deletePod(ctx, pod)
		}
		Eventually(func() *v1beta1.PodGroup { return w.seen.PodGroup("annotations") }).Should(BeNil())
		Expect(ours().PodGroups(w.name).Delete(ctx, "object", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() *v1beta1.PodGroup { return w.seen.PodGroup("object") }).Should(BeNil())
	})

	It("in two ways at once is reported, and Volcano's own wins", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-twice", 2, "4")
		startControllers(ctx, w.name, "")
		w.start(ctx, w.conf())
		explicit := gang{name: "explicit", size: 2, min: 2, pod: func(_ int, pod *corev1.Pod) {
			pod.Annotations[gangs.NameAnnotation], pod.Annotations[gangs.MinAvailableAnnotation] = "other", "5"
		}}
		w.submit(ctx, explicit)
		w.seen.eventuallyBound(explicit, 2)
		createObject(ctx, w.name, "labelled", 2)
		both := gang{name: "labelled", size: 2, min: 2, pod: written(
			map[string]string{gangs.PodGroupLabel: "labelled"}, map[string]string{gangs.NameAnnotation: "another", gangs.MinAvailableAnnotation: "7"},
		)}
		w.submitPods(ctx, both, 0, 2)
		w.seen.eventuallyBound(both, 2)
		for _, pod := range append(explicit.pods(), both.pods()...) {
			Eventually(func() int { return w.seen.eventCount("Pod", pod, "InvalidGangSettings") }).ShouldNot(BeZero(), "events of pod %s", pod)
		}
		Expect(w.seen.Pod(both.member(0)).Annotations[tellAnnotation]).To(ContainSubstring(`using "labelled"`))
		Expect(objectOf(ctx, w.name, "labelled").Annotations[tellAnnotation]).To(ContainSubstring("overrides labelled-0, labelled-1"))
		Expect(w.seen.PodGroup("other")).To(BeNil())
		Expect(w.seen.PodGroup("another")).To(BeNil())
	})

	It("as Koordinator's users do is whole, whichever of upstream's controller and ours comes first", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-race", 8, "4")
		// Without the gang controller, upstream's controller creates a PodGroup for each of these pods, as a stock
		// one does.
		stock := startControllersOf(ctx, w.name, "-stock", "pg-controller")
		first := gang{name: "first", size: 4, min: 4, pod: annotated("first", 4)}
		w.submitPods(ctx, first, 0, 3)
		Eventually(func() string { return w.seen.groupOf(first.member(2)) }).Should(HavePrefix("podgroup-"))
		startControllers(ctx, w.name, "")
		var all []gang
		for i := range 6 {
			g := gang{name: fmt.Sprintf("race-%d", i), size: 4, min: 4, pod: annotated(fmt.Sprintf("race-%d", i), 4)}
			w.submitPods(ctx, g, 0, 4)
			all = append(all, g)
		}
		for _, g := range append(all, first) {
			for i := range g.size {
				if pod := w.seen.Pod(g.member(i)); pod != nil {
					Eventually(func() string { return w.seen.groupOf(pod.Name) }).Should(Equal(g.name))
				}
			}
		}
		Eventually(func() []string { return ownGroups(ctx, w.name) }).Should(BeEmpty(), "PodGroups that upstream's controller made")
		// A scheduler may bind a pod in the stock controller's PodGroup before our controller moves it, since only
		// one of the controllers leads at a time.
		Expect(stock.Kill9()).To(Succeed())
		w.start(ctx, w.conf())
		for _, g := range all {
			w.seen.eventuallyBound(g, 4)
		}
		Consistently(func() int { return w.seen.everBound(first) }).Should(BeZero())
		w.submitPods(ctx, first, 3, 4)
		w.seen.eventuallyBound(first, 4)
	})

	It("in pods alone is collected with them, with no controller there", func(ctx SpecContext) {
		w := newTestEnv(ctx, "gang-collect", 1, "4")
		controllers := startControllers(ctx, w.name, "")
		g := gang{name: "g", size: 3, min: 3, pod: annotated("g", 3)}
		w.submitPods(ctx, g, 0, 3)
		Eventually(func() string { return w.seen.groupOf(g.member(2)) }).Should(Equal("g"))
		Eventually(func() int {
			if group := w.seen.PodGroup("g"); group != nil {
				return len(group.OwnerReferences)
			}
			return 0
		}).Should(BeNumerically(">", 0))
		Expect(controllers.Kill9()).To(Succeed())
		for _, pod := range g.pods() {
			w.deletePod(ctx, pod)
		}
		Eventually(func() *v1beta1.PodGroup { return w.seen.PodGroup("g") }, controllersPatience).Should(BeNil())
	})
})

// written returns a function that replaces a pod's labels and annotations with the given ones. With these, and not in
// Volcano's way, the pod names its gang.
func written(labels, annotations map[string]string) func(int, *corev1.Pod) {
	return func(_ int, pod *corev1.Pod) {
		pod.Labels, pod.Annotations = maps.Clone(labels), maps.Clone(annotations)
	}
}

func annotated(name string, minimum int) func(int, *corev1.Pod) {
	return written(nil, map[string]string{gangs.NameAnnotation: name, gangs.MinAvailableAnnotation: fmt.Sprint(minimum)})
}

// startControllers runs the gang controller and upstream's podgroup controller for the pods of this scheduler.
func startControllers(ctx context.Context, schedulerName, suffix string) *controlplane.Process {
	GinkgoHelper()
	return startControllersOf(ctx, schedulerName, suffix, "pg-controller,gang-controller")
}

func startControllersOf(ctx context.Context, schedulerName, suffix, controllers string) *controlplane.Process {
	GinkgoHelper()
	process, err := cp.StartControllerManager(ctx, controlplane.ManagerOptions{
		Name: schedulerName + "-controllers" + suffix, Args: []string{"--controllers=" + controllers, "--scheduler-name=" + schedulerName},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Kill9)
	return process
}

// ours returns a client for PodGroups of scheduling.sigs.k8s.io.
func ours() typed.CoschedulingV1alpha1Interface {
	GinkgoHelper()
	client, err := versioned.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	return client.CoschedulingV1alpha1()
}

// createObject creates a PodGroup of scheduling.sigs.k8s.io.
func createObject(ctx context.Context, namespace, name string, minMember int32) {
	GinkgoHelper()
	_, err := ours().PodGroups(namespace).Create(ctx, &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func objectOf(ctx context.Context, namespace, name string) *v1alpha1.PodGroup {
	GinkgoHelper()
	object, err := ours().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &v1alpha1.PodGroup{}
	}
	Expect(err).NotTo(HaveOccurred())
	return object
}

// groupOf returns the PodGroup of the pod.
func (o observed) groupOf(pod string) string {
	if p := o.Pod(pod); p != nil {
		return p.Annotations[v1beta1.KubeGroupNameAnnotationKey]
	}
	return ""
}

func boundOf(o observed, all map[string]gang) int {
	n := 0
	for _, g := range all {
		n += o.bound(g)
	}
	return n
}

// ownGroups returns the PodGroups that upstream's controller has created.
func ownGroups(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	groups, err := vc.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, group := range groups.Items {
		if strings.HasPrefix(group.Name, "podgroup-") {
			names = append(names, group.Name)
		}
	}
	return names
}
