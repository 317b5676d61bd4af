// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// filterDevices filters nodes by their devices in a predicate, like upstream's deviceshare, which needs an API
// server.
var filterDevices = plugin("devices", func(ssn *framework.Session) {
	ssn.AddPredicateFn("devices", func(task *api.TaskInfo, node *api.NodeInfo) error {
		for _, name := range api.RegisteredDevices {
			device, ok := node.Others[name].(api.Devices)
			if !ok || !device.HasDeviceRequest(task.Pod) {
				continue
			}
			if code, reason, err := device.FilterNode(task.Pod, ""); err != nil || code != devices.Success {
				return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.Unschedulable, Reason: reason})
			}
		}
		return nil
	})
})

const withDevices = plain + "\n- plugins:\n  - name: devices\n"

// registered registers the device type with upstream for one test.
func registered(t *testing.T, device string) {
	t.Helper()
	before := slices.Clone(api.RegisteredDevices)
	api.RegisterDevice(device)
	t.Cleanup(func() { api.RegisteredDevices = before })
}

// gpuNode is a node with one GPU of 1000 units of memory that up to ten pods share.
func gpuNode(name string) *v1.Node {
	return schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": "8", "pods": "20", "volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "1000", "volcano.sh/vgpu-cores": "100"}).
		Name(name).
		Annotation("volcano.sh/node-vgpu-register", "GPU-"+name+",10,1000,NVIDIA-V100,true,hami-core:").
		Annotation("volcano.sh/node-vgpu-handshake", "Requesting_2999.01.01 00:00:00").Obj()
}

func gpuPod(memory string) *schedtest.PodBuilder {
	return schedtest.MakePod().Group("g").Limit(schedtest.Resources{"cpu": "1", "volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": memory, "volcano.sh/vgpu-cores": "10"})
}

// TestDevicePatchInTrial checks that a trial writes nothing to the API server, and that no device stays counted after
// the trial. Upstream writes the device chosen for a pod as soon as the pod is tried on a node, and counts it in all
// later sessions.
func TestDevicePatchInTrial(t *testing.T) {
	vgpu.VGPUEnable = true
	t.Cleanup(func() { vgpu.VGPUEnable = false })
	registered(t, vgpu.DeviceName)
	b := behaviour{conf: withDevices, plugins: []framework.PluginSpec{filterDevices}}
	cases := map[string]struct {
		group *schedtest.PodGroupBuilder
		nodes []*v1.Node
		pods  []*v1.Pod
		waits bool
	}{
		"a gang that does not fit": {
			group: schedtest.MakePodGroup().MinMember(3), nodes: []*v1.Node{gpuNode("a1"), gpuNode("a2")}, pods: each(gpuPod("800"), "g-0", "g-1", "g-2"),
		},
		"a gang that waits": {
			group: schedtest.MakePodGroup().MinMember(2), nodes: []*v1.Node{gpuNode("a1"), holds("1").Name("a2").Obj()},
			pods: slices.Concat(leaving("a2", "1", "old-0"), each(gpuPod("800"), "g-0"),
				each(schedtest.MakePod().Group("g").Req(cores("1")).NodeSelector(v1.LabelHostname, "a2"), "g-1")),
			waits: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes: tc.nodes, Pods: tc.pods,
				PodGroups: []*v1beta1.PodGroup{tc.group.Name("g").Obj(), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()},
			})
			defer cluster.Close()
			cluster.Kube().ClearActions()
			before, ssn := b.dropped(cluster, defended)
			if len(ssn.Binds()) > 0 {
				t.Errorf("bound %v; the gang was not to fit", ssn.Binds())
			}
			if diff := cmp.Diff(before, fingerprint(ssn)); diff != "" && !tc.waits {
				t.Errorf("session (-before +after):\n%s", diff)
			}
			if waits := len(ssn.Pipelined()) > 0; waits != tc.waits {
				t.Errorf("the gang waits: %v, want %v", waits, tc.waits)
			}
			ssn.Close()
			if writes := writesTo(cluster); len(writes) > 0 {
				t.Errorf("written to the API server: %v", writes)
			}
			next, _ := b.ready(cluster, defended)
			defer next.Close()
			if diff := cmp.Diff(before, fingerprint(next)); diff != "" {
				t.Errorf("the next session (-first, before +next):\n%s", diff)
			}
		})
	}
}

// TestDevicesOfABoundPod checks that the Binding has annotations with the devices chosen for a pod. The devices count
// as used when the next pod of the gang is placed.
func TestDevicesOfABoundPod(t *testing.T) {
	vgpu.VGPUEnable = true
	t.Cleanup(func() { vgpu.VGPUEnable = false })
	registered(t, vgpu.DeviceName)
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{gpuNode("a1"), gpuNode("a2")},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
		Pods:      each(gpuPod("800"), "g-0", "g-1"),
	})
	defer cluster.Close()
	ssn := behaviour{conf: withDevices, plugins: []framework.PluginSpec{filterDevices}}.open(cluster, defended)
	defer ssn.Close()
	if got := uniqueNodes(ssn); len(got) != 2 {
		t.Errorf("bound %v, want a node each: a GPU does not hold two", ssn.Binds())
	}
	for pod, handed := range ssn.Handed() {
		want := "GPU-" + handed.Node + ",NVIDIA,800,10:"
		if got := handed.Decided[vgpu.AssignedIDsAnnotations]; got != want {
			t.Errorf("pod %s has devices %q, want %q", pod, got, want)
		}
	}
	if writes := writesTo(cluster); len(writes) > 0 {
		t.Errorf("written to the API server beside the Bindings: %v", writes)
	}
}

// TestSwallowedDeviceError checks that no pod is bound to a node whose devices refuse it after it passed the predicate.
// Upstream only logs the error, and binds the pod without its device.
func TestSwallowedDeviceError(t *testing.T) {
	registered(t, "broken")
	fits := behaviour{
		world: sessiontest.ClusterSpec{
			Nodes:     slices.Concat(nodes(holds("8"), "n1"), nodes(holds("2"), "n2")),
			PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
			Pods:      each(schedtest.MakePod().Group("g").Req(cores("1")), "g-0", "g-1"),
		},
		conf: withDevices, plugins: []framework.PluginSpec{filterDevices},
		prepare: func(c *sessiontest.Cluster) { c.Cache().Nodes["n1"].Others["broken"] = broken{} },
		binds:   map[string]string{"g-0": "n2", "g-1": "n2"},
	}
	misfits := fits
	misfits.world.Nodes, misfits.binds = misfits.world.Nodes[:1], nil
	waits := fits
	waits.world.Nodes, waits.binds = misfits.world.Nodes, nil
	waits.world.PodGroups = append(slices.Clone(waits.world.PodGroups), schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
	waits.world.Pods = slices.Concat(waits.world.Pods, leaving("n1", "8", "old-0"))
	runDefects(t, map[string]behaviour{
		"the gang goes to a node whose devices work": fits,
		"there is no other node":                     misfits,
		"nor does it wait for such a node":           waits,
	})
}

// TestAPodWithoutItsDevicesIsNotHandedOver checks that a pod without its devices is not committed. Upstream's own
// actions place a pod without checking whether the node's devices accepted it.
func TestAPodWithoutItsDevicesIsNotHandedOver(t *testing.T) {
	vgpu.VGPUEnable = true
	t.Cleanup(func() { vgpu.VGPUEnable = false })
	registered(t, vgpu.DeviceName)
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{gpuNode("a1")},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
		Pods:      each(gpuPod("800"), "g-0", "g-1"),
	})
	defer cluster.Close()
	ssn, _ := behaviour{conf: withDevices, plugins: []framework.PluginSpec{filterDevices}}.ready(cluster, defended)
	defer ssn.Close()
	job := ssn.Jobs[api.JobID(schedtest.Namespace+"/g")]
	for _, uid := range slices.Sorted(maps.Keys(job.Tasks)) {
		_ = ssn.Session.Session.Allocate(job.Tasks[uid], ssn.Nodes["a1"]) // Upstream's actions do the same.
	}
	if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/g-0": "a1"}, ssn.Binds()); diff != "" {
		t.Errorf("bound, of two pods that want one GPU each of a node with one (-want +got):\n%s", diff)
	}
}

// TestDowngradedVNPUs checks that pods get vNPUs with fewer AI CPUs than usual if the chips have no more. In the
// predicate of a pod, MindCluster's vNPUs record this under the pod's name, and they read the record when they allocate
// the chip.
func TestDowngradedVNPUs(t *testing.T) {
	vnpu.AscendMindClusterVNPUEnable = true
	t.Cleanup(func() { vnpu.AscendMindClusterVNPUEnable = false })
	registered(t, vnpu.DeviceName)
	// Each of the two chips has 4 free cores, but only 3 free AI CPUs. A vNPU of 4 cores usually has 4 AI CPUs.
	chips := plugin("chips", func(ssn *framework.Session) {
		ledger := ssn.Nodes["a1"].Others[vnpu.DeviceName].(*vnpu.NPUDevices)
		ledger.ServerType, ledger.TotalChipNum, ledger.AiCorePerChip, ledger.ValidVNode = "Ascend310P-8", 2, 8, true
		ledger.TotalRes = vnpu.VResource{Aicore: 16, Aicpu: 14}
		ledger.Idle = map[v1.ResourceName]float64{vnpu.AscendNPUCore: 8000}
		for i := range 2 {
			ledger.Chips[i] = &vnpu.VChip{
				Name: fmt.Sprintf("Ascend310P-%d", i), PodMap: map[string]*v1.Pod{}, SegmentFlag: true,
				TotalRes: vnpu.VResource{Aicore: 8, Aicpu: 7, DVPP: vnpu.AscendDVPPEnabledOff},
				UsedRes:  vnpu.VResource{Aicore: 4, Aicpu: 4, DVPP: vnpu.AscendDVPPEnabledOff},
				FreeRes:  vnpu.VResource{Aicore: 4, Aicpu: 3, DVPP: vnpu.AscendDVPPEnabledOn},
			}
		}
	})
	pod := schedtest.MakePod().Group("g").Label(vnpu.JobKindKey, vnpu.JobKind310PValue).Label(vnpu.AscendVNPULevel, vnpu.AscendVNPULevelHigh).
		Limit(schedtest.Resources{"cpu": "1", vnpu.AscendNPUCore: "4"})
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     nodes(schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": "8", "pods": "20", vnpu.AscendNPUCore: "8"}), "a1"),
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
		Pods:      each(pod, "g-0", "g-1"),
	})
	defer cluster.Close()
	ssn := behaviour{conf: plain + "\n- plugins:\n  - name: chips\n  - name: devices\n", plugins: []framework.PluginSpec{chips, filterDevices}}.open(cluster, defended)
	defer ssn.Close()
	got := map[string]bool{}
	for _, handed := range ssn.Handed() {
		got[handed.Decided[vnpu.AscendNPUCore]] = true
	}
	if diff := cmp.Diff(map[string]bool{"0-vir04_3c": true, "1-vir04_3c": true}, got); diff != "" {
		t.Errorf("vNPUs of the pods that are bound (-want +got):\n%s", diff)
	}
}

// broken is a device that passes every pod and fails to allocate.
type broken struct{}

var _ api.Devices = broken{}

func (broken) AddResource(*v1.Pod)                             {}
func (broken) SubResource(*v1.Pod)                             {}
func (broken) AddQueueResource(*v1.Pod) map[string]float64     { return nil }
func (broken) HasDeviceRequest(*v1.Pod) bool                   { return true }
func (broken) FilterNode(*v1.Pod, string) (int, string, error) { return devices.Success, "", nil }
func (broken) ScoreNode(*v1.Pod, string) float64               { return 0 }
func (broken) Release(kubernetes.Interface, *v1.Pod) error     { return nil }
func (broken) GetIgnoredDevices() []string                     { return nil }
func (broken) GetStatus() string                               { return "" }
func (broken) Allocate(kubernetes.Interface, *v1.Pod) error {
	return errors.New("the device was removed")
}

// writesTo returns the writes to the API server, except events.
func writesTo(cluster *sessiontest.Cluster) []string {
	var writes []string
	for _, act := range cluster.Kube().Actions() {
		switch act.GetVerb() {
		case "create", "update", "patch", "delete":
			writes = append(writes, act.GetVerb()+" "+act.GetResource().Resource)
		}
	}
	return writes
}
