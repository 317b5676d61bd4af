// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

const (
	gpuMemory   = "83201216Ki"
	gpuMemoryB  = 85198045184
	jointHint   = `{"deviceTypes":["gpu","rdma"]}`
	jointPCIe   = `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`
	vfHint      = `{"rdma":{"vfSelector":{}}}`
	rdmaName    = "koordinator.sh/rdma"
	coreName    = "koordinator.sh/gpu-core"
	ratioName   = "koordinator.sh/gpu-memory-ratio"
	memoryName  = "koordinator.sh/gpu-memory"
	sharedName  = "koordinator.sh/gpu.shared"
	koordGPU    = "koordinator.sh/gpu"
	nvidiaName  = "nvidia.com/gpu"
	fpgaName    = "koordinator.sh/fpga"
	npuCoreName = "huawei.com/npu-core"
	npuCPUName  = "huawei.com/npu-cpu"
	npuDVPPName = "huawei.com/npu-dvpp"
)

// deviceObject builds a Device object.
type deviceObject struct{ v1alpha1.Device }

func makeDevice() *deviceObject {
	return &deviceObject{v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{}, Annotations: map[string]string{}}}}
}

func list(namesAndAmounts ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(namesAndAmounts); i += 2 {
		l[v1.ResourceName(namesAndAmounts[i])] = resource.MustParse(namesAndAmounts[i+1])
	}
	return l
}

// add adds a healthy device. A numa below 0 means an unknown topology.
func (d *deviceObject) add(t v1alpha1.DeviceType, minor int32, numa int32, pcie string, resources v1.ResourceList) *v1alpha1.DeviceInfo {
	info := v1alpha1.DeviceInfo{Type: t, Minor: &minor, UUID: fmt.Sprintf("%s-%d", t, minor), Health: true, Resources: resources}
	if numa >= 0 {
		info.Topology = &v1alpha1.DeviceTopology{NodeID: numa, PCIEID: pcie}
	}
	d.Spec.Devices = append(d.Spec.Devices, info)
	return &d.Spec.Devices[len(d.Spec.Devices)-1]
}

func (d *deviceObject) gpu(minor int32, numa int32, pcie string) *v1alpha1.DeviceInfo {
	return d.add(v1alpha1.GPU, minor, numa, pcie, list(coreName, "100", ratioName, "100", memoryName, gpuMemory))
}

func (d *deviceObject) nic(minor int32, numa int32, pcie string) *v1alpha1.DeviceInfo {
	return d.add(v1alpha1.RDMA, minor, numa, pcie, list(rdmaName, "100"))
}

func (d *deviceObject) state(t testing.TB) *State {
	t.Helper()
	inventory, err := NewInventory(&d.Device, nil, InventoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(inventory)
}

// nodeA is the node of Koordinator's cases: eight GPUs and four NICs on four PCIe roots and two NUMA nodes.
func nodeA() *deviceObject {
	d := makeDevice()
	for minor := range int32(8) {
		d.gpu(minor, minor/4, fmt.Sprint("pcie", minor/2))
	}
	for i, bus := range []string{"1f", "90", "51", "b9"} {
		nic := d.nic(int32(i+1), int32(i/2), fmt.Sprint("pcie", i))
		group := v1alpha1.VirtualFunctionGroup{}
		for vf := range int32(30) {
			group.VFs = append(group.VFs, v1alpha1.VirtualFunction{Minor: vf, BusID: fmt.Sprintf("0000:%s:%02x.%d", bus, (vf+2)/8, (vf+2)%8)})
		}
		nic.VFGroups = []v1alpha1.VirtualFunctionGroup{group}
	}
	return d
}

// makePod returns a pod that requests these resources. The keys of annotations are given without their common prefix.
func makePod(resources v1.ResourceList, annotations ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{}}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: resources, Requests: resources}}}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations["scheduling.koordinator.sh/"+annotations[i]] = annotations[i+1]
	}
	return pod
}

func parse(t testing.TB, pod *v1.Pod) *Request {
	t.Helper()
	r, err := ParseRequest(pod, RequestOptions{})
	if err != nil || r == nil {
		t.Fatalf("ParseRequest: %v, %v", r, err)
	}
	return r
}

// whole is an allocation of whole GPUs of Node A, and part is an allocation of this percentage of each GPU.
func whole(minors ...int32) *Allocation { return part(100, minors...) }

func part(percent int64, minors ...int32) *Allocation {
	a := &Allocation{}
	for _, minor := range minors {
		a[GPU] = append(a[GPU], DeviceAllocation{Minor: minor, Amounts: Amounts{Core: percent, MemoryRatio: percent, Memory: percent * gpuMemoryB / 100}})
	}
	return a
}

func nics(amount int64, minors ...int32) *Allocation {
	a := &Allocation{}
	for _, minor := range minors {
		a[RDMA] = append(a[RDMA], DeviceAllocation{Minor: minor, Amounts: Amounts{RDMAShare: amount}})
	}
	return a
}

func vf(minor int32, busID string) *Allocation {
	a := nics(1, minor)
	a[RDMA][0].VFs = []VF{{BusID: busID}}
	return a
}

// text returns an allocation as a short text: the minors by type, followed by the amount if it is not the usual one.
func text(a *Allocation) string {
	var parts []string
	for t := range a {
		var devices []string
		for _, d := range a[t] {
			device := fmt.Sprint(d.Minor)
			if Type(t) == GPU && d.Amounts[MemoryRatio] != 100 {
				device += fmt.Sprintf("@%d", d.Amounts[MemoryRatio])
			}
			if Type(t) == RDMA && d.Amounts[RDMAShare] != 1 {
				device += fmt.Sprintf("@%d", d.Amounts[RDMAShare])
			}
			for _, vf := range d.VFs {
				device += "/" + strings.TrimPrefix(vf.BusID, "0000:")
			}
			devices = append(devices, device)
		}
		if len(devices) > 0 {
			parts = append(parts, Type(t).String()+" "+strings.Join(devices, ","))
		}
	}
	return strings.Join(parts, "; ")
}

func inUse(s *State, allocations ...*Allocation) *State {
	for _, a := range allocations {
		s = s.With(a)
	}
	return s
}

// check allocates devices and compares the result. want is the text of the allocation, or a part of the reason of a
// refusal.
func check(t *testing.T, s *State, r *Request, o Options, want string, refused bool) {
	t.Helper()
	a, refusal := Allocate(s, r, o)
	if refusal != nil {
		if !refused || !strings.Contains(refusal.Reason, want) {
			t.Errorf("refused: %q, want %q", refusal.Reason, want)
		}
		return
	}
	if refused {
		t.Errorf("allocated %s, want a refusal with %q", text(a), want)
		return
	}
	if diff := cmp.Diff(want, text(a)); diff != "" {
		t.Errorf("allocation (-want +got):\n%s", diff)
	}
}

var oneNIC = resource.MustParse("1")

func parseQuantity(text string) (resource.Quantity, error) { return resource.ParseQuantity(text) }

func quantities(name string, q resource.Quantity, other string, r resource.Quantity) v1.ResourceList {
	return v1.ResourceList{v1.ResourceName(other): r, v1.ResourceName(name): q}
}
