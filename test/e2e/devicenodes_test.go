// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
)

const (
	gpuResource  = "koordinator.sh/gpu"
	rdmaResource = "koordinator.sh/rdma"
	// withDeviceShare is appended to a configuration.
	withDeviceShare = "- plugins:\n  - name: deviceshare\n"
)

// boardEnv is a testEnv with nodes in InfiniBand clusters. Each node has 8 GPUs and 4 NICs.
type boardEnv struct {
	*testEnv
	devices versioned.Interface
}

// newBoardEnv creates the given number of nodes for each cluster. The nodes are numbered across clusters.
func newBoardEnv(ctx context.Context, name string, clusters ...int) boardEnv {
	GinkgoHelper()
	w := boardEnv{newTestEnv(ctx, name, 0, "1"), deviceClient()}
	first := 0
	for i, nodes := range clusters {
		w.addCluster(ctx, string(rune('a'+i)), first, nodes, "16")
		first += nodes
	}
	w.publish(ctx, first)
	return w
}

func deviceClient() versioned.Interface {
	GinkgoHelper()
	client, err := versioned.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	return client
}

// publish creates the Device objects of the first nodes.
func (w boardEnv) publish(ctx context.Context, nodes int) {
	GinkgoHelper()
	for i := range nodes {
		Expect(cp.CreateDevices(ctx, controlplane.EightGPUs(w.node(i)))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(w.devices.SchedulingV1alpha1().Devices().Delete(ctx, w.node(i), metav1.DeleteOptions{})).To(Succeed())
		})
	}
}

// schedule runs the test's scheduler with its plugins, ibcluster and then deviceshare.
func (w boardEnv) schedule(ctx context.Context, proxy *faultproxy.Proxy, plugins ...string) *controlplane.Scheduler {
	GinkgoHelper()
	opts := controlplane.SchedulerOptions{Conf: w.conf(plugins...) + inClusters + withDeviceShare}
	if proxy != nil {
		opts.Server = proxy.URL()
	}
	return w.startWith(ctx, opts)
}

// onSwitches returns a gang that requires one cluster. Each of its members has two GPUs and the NIC of one PCIe
// switch.
func onSwitches(name string, size int) gang {
	g := required(gang{name: name, size: size, min: size})
	g.pod = func(_ int, pod *corev1.Pod) {
		asks(pod, gpuResource, "200")
		asks(pod, rdmaResource, "100")
		pod.Annotations[v1alpha1.DeviceJointAllocateAnnotation] = `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`
	}
	return g
}

// withGPU returns a pod with one GPU, on the node unless it is empty.
func withGPU(name, node string) gang {
	return gang{name: name, size: 1, min: 1, pod: func(_ int, pod *corev1.Pod) {
		asks(pod, gpuResource, "100")
		if node != "" {
			pod.Spec.NodeSelector[corev1.LabelHostname] = node
		}
	}}
}

func asks(pod *corev1.Pod, name corev1.ResourceName, amount string) {
	resources := &pod.Spec.Containers[0].Resources
	if resources.Limits == nil {
		resources.Limits = corev1.ResourceList{}
	}
	resources.Requests[name], resources.Limits[name] = resource.MustParse(amount), resource.MustParse(amount)
}

// given is a device in a pod's annotation, as a node's agent reads it.
type given struct {
	Minor     int                          `json:"minor"`
	ID        string                       `json:"id"`
	Resources map[string]resource.Quantity `json:"resources"`
}

// devicesOf returns the pod's devices by type, or nil without the annotation.
func devicesOf(pod *corev1.Pod) map[string][]given {
	GinkgoHelper()
	text, ok := pod.Annotations[v1alpha1.DeviceAllocatedAnnotation]
	if !ok {
		return nil
	}
	var devices map[string][]given
	Expect(json.Unmarshal([]byte(text), &devices)).To(Succeed(), "annotation of pod %s", pod.Name)
	return devices
}

// expectSwitches expects each member of the gang to have the GPUs and the NIC of one PCIe switch.
func (w boardEnv) expectSwitches(g gang) {
	GinkgoHelper()
	for _, name := range g.pods() {
		devices := devicesOf(w.seen.Pod(name))
		Expect(devices["gpu"]).To(HaveLen(2), "GPUs of pod %s", name)
		Expect(devices["rdma"]).To(HaveLen(1), "NICs of pod %s", name)
		first, nic := devices["gpu"][0].Minor, devices["rdma"][0].Minor
		Expect([]int{first % 2, devices["gpu"][1].Minor, nic}).To(Equal([]int{0, first + 1, first/2 + 1}), "GPUs %v and NIC %d of pod %s", devices["gpu"], nic, name)
		for _, gpu := range devices["gpu"] {
			Expect(gpu.ID).To(Equal(fmt.Sprintf("GPU-%s-%d", w.seen.Pod(name).Spec.NodeName, gpu.Minor)))
		}
	}
}

// expectNoDeviceTwice expects that no two existing pods have the same device of a node. Devices are assigned whole.
func (w boardEnv) expectNoDeviceTwice(ctx context.Context) {
	GinkgoHelper()
	pods, err := kube.CoreV1().Pods(w.name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	owners := map[string]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for kind, devices := range devicesOf(pod) {
			for _, device := range devices {
				what := fmt.Sprintf("%s/%s-%d", pod.Spec.NodeName, kind, device.Minor)
				Expect(owners).NotTo(HaveKey(what), "pod %s has it, too", pod.Name)
				owners[what] = pod.Name
			}
		}
	}
}

// expectDevicesWithNode expects that no version of a pod had devices without a node, or a node without devices.
func (w boardEnv) expectDevicesWithNode(g gang) {
	GinkgoHelper()
	for _, name := range g.pods() {
		for _, pod := range w.seen.PodVersions(name) {
			Expect(devicesOf(pod) != nil).To(Equal(pod.Spec.NodeName != ""), "pod %s at version %s is on %q", name, pod.ResourceVersion, pod.Spec.NodeName)
		}
	}
}

// writesTo returns a counter of the writes to the matching pods, except Bindings and statuses.
func writesTo(proxy *faultproxy.Proxy, pods string) func() int {
	var rules []*faultproxy.ActiveRule
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		rules = append(rules, proxy.Add(faultproxy.Rule{Method: method, Path: "/pods/" + pods + "$"}))
	}
	return func() int {
		hits := 0
		for _, rule := range rules {
			hits += rule.Hits()
		}
		return hits
	}
}

// turnUnhealthy marks the GPU as unhealthy, as the node's agent does.
func (w boardEnv) turnUnhealthy(ctx context.Context, node string, gpu int32) {
	GinkgoHelper()
	devices := w.devices.SchedulingV1alpha1().Devices()
	device, err := devices.Get(ctx, node, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	at := slices.IndexFunc(device.Spec.Devices, func(d v1alpha1.DeviceInfo) bool { return d.Type == v1alpha1.GPU && *d.Minor == gpu })
	device.Spec.Devices[at].Health = false
	_, err = devices.Update(ctx, device, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
