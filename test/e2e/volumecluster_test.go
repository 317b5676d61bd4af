// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// volumeEnv is a testEnv with nodes in InfiniBand clusters, storage classes that bind late, and a separate
// provisioner.
type volumeEnv struct{ *testEnv }

// newVolumeEnv creates these InfiniBand clusters, named a, b and so on, with the given numbers of nodes of 4 CPUs
// each.
func newVolumeEnv(ctx context.Context, name string, clusters ...int) volumeEnv {
	GinkgoHelper()
	w := volumeEnv{newTestEnv(ctx, name, 0, "4")}
	first := 0
	for i, nodes := range clusters {
		w.addCluster(ctx, string(rune('a'+i)), first, nodes, "4")
		first += nodes
	}
	for class, provisioner := range map[string]string{w.local(): volume.NotSupportedProvisioner, w.made(): w.made()} {
		_, err := kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	provisioner, err := cp.StartBeside(w.name+"-provisioner", filepath.Join(binaries, "e2e-provisioner"),
		"--kubeconfig="+cp.Kubeconfig(), "--provisioner="+w.made(), "--control="+string(w.plugins.Dir))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			w.printVolumes(ctx)
		}
		Expect(provisioner.Kill9()).To(Succeed())
		for _, v := range w.volumes(ctx) {
			Expect(ignoreGone(kube.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}))).To(Succeed())
		}
		for _, class := range []string{w.local(), w.made()} {
			Expect(kube.StorageV1().StorageClasses().Delete(ctx, class, metav1.DeleteOptions{})).To(Succeed())
		}
	})
	return w
}

// local is the class of existing volumes, and made is the class of volumes from the provisioner, and also the
// provisioner's name.
func (w volumeEnv) local() string { return w.name + "-local" }
func (w volumeEnv) made() string  { return w.name + "-made" }

// schedule runs the test's scheduler with volumebinding, where the claims of a pod may take bindTimeout seconds to be
// bound.
func (w volumeEnv) schedule(ctx context.Context, bindTimeout int, opts controlplane.SchedulerOptions) *controlplane.Scheduler {
	GinkgoHelper()
	opts.Conf = w.confBinding(bindTimeout)
	// The provisioner is not a CSI driver, so nodes cannot have attach limits for it.
	opts.Args = append(opts.Args, "--ignored-provisioners="+w.made())
	return w.startWith(ctx, opts)
}

// confBinding returns the configuration with volumebinding, where the claims of a pod may take this number of seconds
// to be bound.
func (w volumeEnv) confBinding(seconds int) string {
	const plugin = "  - name: volumebinding\n"
	return strings.Replace(w.conf(), plugin, plugin+fmt.Sprintf("    arguments: {volumebinding.bindTimeoutSeconds: %d}\n", seconds), 1) + inClusters
}

// addVolume creates a local volume on the node.
func (w volumeEnv) addVolume(ctx context.Context, name, node string) {
	GinkgoHelper()
	w.addVolumeOf(ctx, w.local(), name, node)
}

// addVolumeOf creates a volume of the class that the node reaches, or all nodes if it is empty.
func (w volumeEnv) addVolumeOf(ctx context.Context, class, name, node string) {
	GinkgoHelper()
	made := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nowhere.example.com", Path: "/volumes/" + name}},
		},
	}
	if node != "" {
		made.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/volumes/" + name}}
		made.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	_, err := kube.CoreV1().PersistentVolumes().Create(ctx, made, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// eventuallyAvailable waits until the volume controller has made n of the testEnv's volumes available.
func (w volumeEnv) eventuallyAvailable(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func() (ready int) {
		for _, v := range w.volumes(ctx) {
			if v.Status.Phase == corev1.VolumeAvailable {
				ready++
			}
		}
		return ready
	}, controllersPatience).WithPolling(pollVolumes).Should(Equal(n))
}

// addClaims creates claims of the class.
func (w volumeEnv) addClaims(ctx context.Context, class string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		_, err := kube.CoreV1().PersistentVolumeClaims(w.name).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       claimSpec(class),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// withClaims gives each pod of the gang a separate claim with its name.
func withClaims(g gang) gang {
	return withClaim(g, g.member)
}

// withClaim gives each pod of the gang a claim.
func withClaim(g gang, claim func(i int) string) gang {
	g.pod = func(i int, pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim(i)},
		}})
	}
	return g
}

// volumes returns the volumes of the testEnv's classes.
func (w volumeEnv) volumes(ctx context.Context) []corev1.PersistentVolume {
	GinkgoHelper()
	list, err := kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(list.Items, func(v corev1.PersistentVolume) bool {
		return !strings.HasPrefix(v.Spec.StorageClassName, w.name+"-")
	})
}

// eventsOn returns the messages of the events on the volume with the reason.
func eventsOn(ctx context.Context, volume, reason string) []string {
	GinkgoHelper()
	list, err := kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=PersistentVolume,involvedObject.name=" + volume + ",reason=" + reason,
	})
	Expect(err).NotTo(HaveOccurred())
	var messages []string
	for _, event := range list.Items {
		messages = append(messages, event.Message)
	}
	return messages
}

func (w volumeEnv) claims(ctx context.Context) []corev1.PersistentVolumeClaim {
	GinkgoHelper()
	list, err := kube.CoreV1().PersistentVolumeClaims(w.name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}

// nodeOfVolume returns the only node that reaches the volume, or an empty name if several do.
func nodeOfVolume(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil {
		return ""
	}
	return v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

// provisioned returns the nodes of the provisioner's calls with this phase, by claim.
func (p testPlugins) provisioned(phase string) map[string][]string {
	GinkgoHelper()
	journal, err := p.Journal()
	Expect(err).NotTo(HaveOccurred())
	nodes := map[string][]string{}
	for _, entry := range journal {
		if entry.Call == control.Provision && entry.Phase == phase {
			nodes[entry.Pod] = append(nodes[entry.Pod], entry.Node)
		}
	}
	return nodes
}

// unsettled returns inconsistencies once all transactions have ended: a selected node on a claim that has no volume
// and no pod there; a volume reserved for a claim that does not exist; a pod on a node that does not reach its
// volume; a gang that is neither complete nor waits with a reason.
func (w volumeEnv) unsettled(ctx context.Context, gangs ...gang) []string {
	GinkgoHelper()
	pods, err := kube.CoreV1().Pods(w.name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	volumes := map[string]*corev1.PersistentVolume{}
	for _, v := range w.volumes(ctx) {
		volumes[v.Name] = &v
	}
	owners := map[string]bool{}
	var wrong []string
	for _, claim := range w.claims(ctx) {
		selected := claim.Annotations[volume.AnnSelectedNode]
		has := volumes[claim.Spec.VolumeName]
		owners[string(claim.UID)+" "+claim.Spec.VolumeName] = true
		used := false
		for _, pod := range pods.Items {
			if pod.Spec.NodeName == "" || !uses(&pod, claim.Name) {
				continue
			}
			used = used || pod.Spec.NodeName == selected
			if has == nil || nodeOfVolume(has) != "" && nodeOfVolume(has) != pod.Spec.NodeName {
				wrong = append(wrong, fmt.Sprintf("pod %s on node %s does not reach volume %q of claim %s", pod.Name, pod.Spec.NodeName, claim.Spec.VolumeName, claim.Name))
			}
		}
		if selected != "" && has == nil && !used {
			wrong = append(wrong, fmt.Sprintf("node %s is selected for claim %s, and no pod is there", selected, claim.Name))
		}
	}
	for name, v := range volumes {
		if ref := v.Spec.ClaimRef; ref != nil && !owners[string(ref.UID)+" "+name] {
			wrong = append(wrong, fmt.Sprintf("volume %s (%s) is reserved for claim %s, which does not have it", name, v.Status.Phase, ref.Name))
		}
	}
	return append(wrong, halfDone(w.seen, gangs...)...)
}

func uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// halfDone returns the names of the gangs that are neither complete nor wait with a reason.
func halfDone(o observed, gangs ...gang) []string {
	var wrong []string
	for _, g := range gangs {
		bound, condition := o.bound(g), o.unschedulable(g)
		if bound == g.size || bound == 0 && condition != nil && condition.Message != "" {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%d of %d pods of gang %s are bound, condition %v", bound, g.size, g.name, condition))
	}
	return wrong
}

// expectSettled expects that unsettled returns nothing after a while.
func (w volumeEnv) expectSettled(ctx context.Context, gangs ...gang) {
	GinkgoHelper()
	Eventually(func() []string { return w.unsettled(ctx, gangs...) }).WithPolling(pollVolumes).Should(BeEmpty())
}

// printVolumes prints the available information on volumes when a spec has failed.
func (w volumeEnv) printVolumes(ctx context.Context) {
	for _, c := range w.claims(ctx) {
		fmt.Fprintf(GinkgoWriter, "claim %s, %s, volume %q, %v\n", c.Name, c.Status.Phase, c.Spec.VolumeName, c.Annotations)
	}
	for _, v := range w.volumes(ctx) {
		fmt.Fprintf(GinkgoWriter, "volume %s on %s, %s, for %v, %v\n", v.Name, nodeOfVolume(&v), v.Status.Phase, v.Spec.ClaimRef, v.Annotations)
	}
}

// pauseControllers stops kube-controller-manager, and with it the volume controller, until the returned function is
// called.
func pauseControllers() (resume func()) {
	GinkgoHelper()
	controllers := cp.Process(controlplane.ControllerManager)
	Expect(controllers.Pause()).To(Succeed())
	resume = func() { Expect(controllers.Resume()).To(Succeed()) }
	DeferCleanup(resume)
	return resume
}
