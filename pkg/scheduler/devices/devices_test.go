// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Upstream's device modes are package variables, which its node workers read while a test switches them.

package devices_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/hami"
	"volcano.sh/volcano/pkg/scheduler/api/devices/config"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// sharing is a way to share devices, on nodes with two devices each.
type sharing struct {
	// argument is the argument of deviceshare that enables it.
	argument string
	// holds is the annotation that lists the devices of a pod. `has` is the value of that annotation for a pod with one
	// device.
	holds, has string
	node       func() *schedtest.NodeBuilder
	// asks are a pod's limits for half a device, or for a whole one if devices are not divided. No node fits five
	// such pods, or three if devices are not divided.
	asks schedtest.Resources
	most int
}

var sharings = map[string]sharing{
	"vGPU": {
		argument: "deviceshare.VGPUEnable", holds: vgpu.AssignedIDsAnnotations, has: "GPU-n-1,NVIDIA,8000,0:", most: 4,
		node: func() *schedtest.NodeBuilder {
			return schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "32", "pods": "100", config.VolcanoVGPUNumber: "20", config.VolcanoVGPUMemory: "32000"}).
				Annotation(config.VolcanoVGPURegister, "GPU-n-0,10,16000,NVIDIA-A,true,hami-core:GPU-n-1,10,16000,NVIDIA-A,true,hami-core:").
				Annotation(config.VolcanoVGPUHandshake, "Requesting_"+time.Now().Format("2006.01.02 15:04:05"))
		},
		asks: schedtest.Resources{config.VolcanoVGPUNumber: "1", config.VolcanoVGPUMemory: "8000"},
	},
	"GPU memory": {
		argument: "deviceshare.GPUSharingEnable", holds: gpushare.GPUIndex, has: "1", most: 4,
		node: gpushareNode, asks: schedtest.Resources{gpushare.VolcanoGPUResource: "8"},
	},
	"whole GPUs": {
		argument: "deviceshare.GPUNumberEnable", holds: gpushare.GPUIndex, has: "1", most: 2,
		node: gpushareNode, asks: schedtest.Resources{gpushare.VolcanoGPUNumber: "1"},
	},
	"HAMi's vNPU": {
		argument: "deviceshare.AscendHAMiVNPUEnable", holds: "hami.io/Ascend310P-devices-to-allocate", has: "npu-1,Ascend310P,12288,0:;", most: 2,
		node: func() *schedtest.NodeBuilder {
			device := `{"id":"npu-%d","index":%[1]d,"count":7,"devmem":21527,"devcore":8,"type":"Ascend310P","health":true}`
			return schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "32", "pods": "100", "huawei.com/Ascend310P": "14", "huawei.com/Ascend310P-memory": "43054"}).
				Annotation("hami.io/node-register-Ascend310P", "["+fmt.Sprintf(device, 0)+","+fmt.Sprintf(device, 1)+"]")
		},
		asks: schedtest.Resources{"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "12288"},
	},
}

func gpushareNode() *schedtest.NodeBuilder {
	return schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "32", "pods": "100", gpushare.VolcanoGPUResource: "32", gpushare.VolcanoGPUNumber: "2"})
}

// switchOn enables one way of sharing, for the whole process, until the test ends.
func (s sharing) switchOn(t *testing.T, locks bool) {
	t.Helper()
	registered := api.RegisteredDevices
	gpushare.GpuSharingEnable = strings.Contains(s.argument, "GPUSharing")
	gpushare.GpuNumberEnable = strings.Contains(s.argument, "GPUNumber")
	vgpu.VGPUEnable = strings.Contains(s.argument, "VGPU")
	hami.AscendHAMiVNPUEnable = strings.Contains(s.argument, "HAMi")
	gpushare.NodeLockEnable, vgpu.NodeLockEnable, hami.NodeLockEnable = locks, locks, locks
	switch {
	case vgpu.VGPUEnable:
		api.RegisteredDevices = []string{vgpu.DeviceName}
	case hami.AscendHAMiVNPUEnable:
		api.RegisteredDevices = []string{"Ascend310P"}
	default:
		api.RegisteredDevices = []string{gpushare.DeviceName}
	}
	t.Cleanup(func() {
		gpushare.GpuSharingEnable, gpushare.GpuNumberEnable, vgpu.VGPUEnable, hami.AscendHAMiVNPUEnable = false, false, false, false
		gpushare.NodeLockEnable, vgpu.NodeLockEnable, hami.NodeLockEnable = false, false, false
		api.RegisteredDevices = registered
	})
}

// harness is a cluster with one way of sharing devices.
type harness struct {
	*sessiontest.Cluster
	t        *testing.T
	registry *framework.Registry
	conf     string
}

func confOf(s sharing, locks bool) string {
	return fmt.Sprintf(`
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
    arguments:
      predicate.VolumeBindingEnable: false # which wants a predicate before each placement
  - name: deviceshare
    arguments:
      %s: true
      deviceshare.NodeLockEnable: %t
`, s.argument, locks)
}

// in runs the test on the node and the pods, once for each way of sharing, or for the named ways.
func in(t *testing.T, locks bool, pods func(s sharing) []*v1.Pod, test func(t *testing.T, w *harness, s sharing), only ...string) {
	for name, s := range sharings {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s.switchOn(t, locks)
			list := pods(s)
			w := &harness{t: t, registry: framework.NewRegistry(), conf: confOf(s, locks)}
			w.Cluster = sessiontest.New(sessiontest.ClusterSpec{
				Nodes: []*v1.Node{s.node().Obj()}, Pods: list,
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj()},
			})
			defer w.Close()
			test(t, w, s)
		})
	}
}

func (w *harness) open() *sessiontest.Session { return w.Open(w.registry, w.conf) }

// writes returns the writes to the API server since the last call.
func (w *harness) writes() []string {
	var writes []string
	for _, action := range w.Kube().Actions() {
		switch action := action.(type) {
		case clienttesting.PatchAction:
			writes = append(writes, "patch "+action.GetResource().Resource+" "+action.GetName())
		case clienttesting.UpdateAction:
			writes = append(writes, "update "+action.GetResource().Resource)
		}
	}
	w.Kube().ClearActions()
	return writes
}

func (w *harness) unwritten() {
	w.t.Helper()
	if writes := w.writes(); len(writes) > 0 {
		w.t.Errorf("the session wrote to the API server: %v", writes)
	}
}

func pending(n int) func(s sharing) []*v1.Pod {
	return func(s sharing) []*v1.Pod {
		var pods []*v1.Pod
		for i := range n {
			pods = append(pods, schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Limit(s.asks).Obj())
		}
		return pods
	}
}

// running returns a function that returns a pod with a device.
func running(name string) func(s sharing) []*v1.Pod {
	return func(s sharing) []*v1.Pod {
		return []*v1.Pod{schedtest.MakePod().Name(name).Group("g").Limit(s.asks).Node("n").Phase(v1.PodRunning).Annotation(s.holds, s.has).Obj()}
	}
}

func task(ssn *sessiontest.Session, name string) *api.TaskInfo {
	return ssn.Jobs["ns/g"].Tasks[api.TaskID("ns-"+name)]
}

// ledger returns the pods that use each device of the node, or the used amounts.
func ledger(ssn *sessiontest.Session) map[string]string {
	out := map[string]string{}
	for _, devices := range ssn.Nodes["n"].Others {
		switch d := devices.(type) {
		case *gpushare.GPUDevices:
			for i, gpu := range d.Device {
				out[fmt.Sprint(i)] = strings.Join(slices.Sorted(maps.Keys(gpu.PodMap)), " ")
			}
		case *vgpu.GPUDevices:
			for _, gpu := range d.Device {
				out[gpu.UUID] = fmt.Sprintf("%v: %d pods, %d memory", slices.Sorted(maps.Keys(gpu.PodMap)), gpu.UsedNum, gpu.UsedMem)
			}
		case *hami.AscendDevices:
			for id, npu := range d.Devices {
				out[id] = fmt.Sprintf("%d pods, %d memory", npu.DeviceUsage.Used, npu.DeviceUsage.Usedmem)
			}
		}
	}
	return out
}

// TestRegressionDevicePatchInTrial covers a defect of upstream: devices are written to the API server in a trial that
// is then reverted, and the ledger stays wrong.
func TestRegressionDevicePatchInTrial(t *testing.T) {
	trials := map[string]func(*vcframework.Statement, *sessiontest.Session, *api.TaskInfo) error{
		"allocated": func(s *vcframework.Statement, ssn *sessiontest.Session, task *api.TaskInfo) error {
			return s.Allocate(task, ssn.Nodes["n"])
		},
		"pipelined": func(s *vcframework.Statement, _ *sessiontest.Session, task *api.TaskInfo) error {
			return s.Pipeline(task, "n", false)
		},
	}
	for name, place := range trials {
		t.Run(name, func(t *testing.T) {
			in(t, false, pending(2), func(t *testing.T, w *harness, s sharing) {
				ssn := w.open()
				defer ssn.Close()
				before, annotations := ledger(ssn), maps.Clone(task(ssn, "p0").Pod.Annotations)
				for range 3 {
					statement := vcframework.NewStatement(ssn.Session.Session)
					for _, p := range []string{"p0", "p1"} {
						if err := place(statement, ssn, task(ssn, p)); err != nil {
							t.Fatal(err)
						}
					}
					if cmp.Diff(before, ledger(ssn)) == "" {
						t.Error("the ledger does not count the placed pods")
					}
					if task(ssn, "p0").Pod.Annotations[s.holds] == "" {
						t.Errorf("pod has no annotation %s while it is placed", s.holds)
					}
					statement.Discard()
					if diff := cmp.Diff(before, ledger(ssn)); diff != "" {
						t.Errorf("ledger after the trial was dropped (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(annotations, task(ssn, "p0").Pod.Annotations); diff != "" {
						t.Errorf("the pod's annotations after the trial was dropped (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(annotations, ssn.PodLister.CachedPods["ns-p0"].Annotations); diff != "" {
						t.Errorf("annotations of the lister's pod after the trial was dropped (-want +got):\n%s", diff)
					}
				}
				w.unwritten()
			})
		})
	}
}

// TestDevicesTravelInTheBinding checks that the Binding has the chosen devices as annotations. One session also
// leaves a trial behind, which must not affect the next one.
func TestDevicesTravelInTheBinding(t *testing.T) {
	in(t, false, pending(2), func(t *testing.T, w *harness, s sharing) {
		w.registry.RegisterAction(allocate.New())
		action, _ := vcframework.GetAction("allocate")
		left := w.open()
		if err := vcframework.NewStatement(left.Session.Session).Allocate(task(left, "p0"), left.Nodes["n"]); err != nil {
			t.Fatal(err)
		}
		left.Close()
		ssn := w.open()
		empty := ledger(ssn)
		ssn.Run(action)
		placed, handed := ledger(ssn), ssn.Handed()
		ssn.Close()
		w.unwritten()
		if len(handed) != 2 {
			t.Fatalf("%d pods were committed, want 2", len(handed))
		}
		if cmp.Diff(empty, placed) == "" {
			t.Error("the ledger does not count the committed devices")
		}
		for name, pod := range map[string]*v1.Pod{"p0": pending(2)(s)[0], "p1": pending(2)(s)[1]} {
			decided := handed["ns/"+name].Decided
			if decided[s.holds] == "" {
				t.Fatalf("pod %s is bound without annotation %s, with %v", name, s.holds, decided)
			}
			bound := pod.DeepCopy()
			bound.Spec.NodeName = "n"
			maps.Copy(bound.Annotations, decided)
			w.Cache().UpdatePod(pod, bound)
		}
		next := w.open()
		defer next.Close()
		if diff := cmp.Diff(placed, ledger(next)); diff != "" {
			t.Errorf("the next session's ledger (-want +got):\n%s", diff)
		}
	})
}

// TestRegressionSwallowedDeviceError covers a defect of upstream: devices are refused, and the pod is bound without
// them.
func TestRegressionSwallowedDeviceError(t *testing.T) {
	in(t, false, pending(5), func(t *testing.T, w *harness, s sharing) {
		ssn := w.open()
		defer ssn.Close()
		statement := vcframework.NewStatement(ssn.Session.Session)
		for i := range s.most {
			if err := statement.Allocate(task(ssn, fmt.Sprintf("p%d", i)), ssn.Nodes["n"]); err != nil {
				t.Fatal(err)
			}
		}
		full, last := ledger(ssn), task(ssn, "p4")
		if err := statement.Allocate(last, ssn.Nodes["n"]); err == nil {
			t.Error("a pod was placed without a device")
		}
		if err := statement.UnAllocate(last); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(full, ledger(ssn)); diff != "" {
			t.Errorf("ledger after the refusal (-want +got):\n%s", diff)
		}
		if err := statement.Pipeline(last, "n", false); err != nil {
			t.Errorf("a pod may not wait for a device that is taken: %v", err)
		}
		if err := statement.UnPipeline(last); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(full, ledger(ssn)); diff != "" {
			t.Errorf("ledger after waiting (-want +got):\n%s", diff)
		}
		// Session.Allocate, unlike a Statement's Allocate, ignores errors of handlers.
		kind := map[string]string{"deviceshare.VGPUEnable": "hamivgpu", "deviceshare.GPUSharingEnable": "GpuShare", "deviceshare.GPUNumberEnable": "GpuShare", "deviceshare.AscendHAMiVNPUEnable": "Ascend310P"}[s.argument]
		want := "node n: the devices (" + kind + ") that pod ns/p4 requests were not allocated"
		if err := ssn.Session.Session.Allocate(last, ssn.Nodes["n"]); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if _, ok := ssn.Handed()["ns/p4"]; ok {
			t.Error("a pod was committed without a device")
		}
		w.unwritten()
	})
}

// TestConfigurationsSwitchDevicesOn checks that configurations enable devices: nodes get their ledgers when they
// enter the cache, before any session opens.
func TestConfigurationsSwitchDevicesOn(t *testing.T) {
	s := sharings["vGPU"]
	s.switchOn(t, false)
	vgpu.VGPUEnable = false
	tiers := []conf.Tier{{Plugins: []conf.PluginOption{{Name: "deviceshare", Arguments: map[string]any{s.argument: true}}}}}
	if _, err := framework.NewRegistry().Build(framework.ProfileInput{Tiers: tiers}, nil); err != nil {
		t.Fatal(err)
	}
	if !vgpu.VGPUEnable {
		t.Error("building a configuration with vGPUs does not switch them on")
	}
}

// TestDevicesAreSwitchedWhenTheSchedulerBegins checks that kinds of devices are enabled when the scheduler starts, and
// that a later configuration with other kinds is rejected. Upstream ends the process when successive configurations
// enable exclusive modes. It also keeps a mode enabled that a later configuration disables, and never registers one
// that is enabled later.
func TestDevicesAreSwitchedWhenTheSchedulerBegins(t *testing.T) {
	sharings["GPU memory"].switchOn(t, false)
	with := func(arguments map[string]any) framework.ProfileInput {
		return framework.ProfileInput{Tiers: []conf.Tier{{Plugins: []conf.PluginOption{{Name: "deviceshare", Arguments: arguments}}}}}
	}
	registry := framework.NewRegistry()
	sharing := map[string]any{"deviceshare.GPUSharingEnable": true}
	if _, err := registry.Build(with(sharing), nil); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reload map[string]any
		want   string
	}{
		"the same":                     {sharing, ""},
		"the same with another policy": {map[string]any{"deviceshare.GPUSharingEnable": true, "deviceshare.SchedulePolicy": "spread"}, ""},
		"what excludes it": {map[string]any{"deviceshare.VGPUEnable": true},
			`plugin "deviceshare": found Device objects, deviceshare.VGPUEnable enabled, but the scheduler started with Device objects, deviceshare.GPUSharingEnable enabled; ` +
				`kinds of devices cannot change while it runs, restart it`},
		"none": {nil, `plugin "deviceshare": found Device objects enabled, but the scheduler started with Device objects, deviceshare.GPUSharingEnable enabled; ` +
			`kinds of devices cannot change while it runs, restart it`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := registry.Build(with(tt.reload), nil)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
				t.Errorf("building it: %s, want %q", got, tt.want)
			}
			if !gpushare.GpuSharingEnable || vgpu.VGPUEnable {
				t.Errorf("GPU sharing is on: %t, vGPUs are on: %t; want the state at the scheduler's start", gpushare.GpuSharingEnable, vgpu.VGPUEnable)
			}
		})
	}
}

// TestClientOfAClosedSession checks that the client of a closed session writes to the API server, because
// kube-scheduler's plugins keep the client of the first session that they see.
func TestClientOfAClosedSession(t *testing.T) {
	in(t, false, pending(1), func(t *testing.T, w *harness, s sharing) {
		ssn := w.open()
		client := ssn.KubeClient()
		ssn.Close()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, s.holds)
		_, _ = client.CoreV1().Pods(schedtest.Namespace).Patch(t.Context(), "p0", types.MergePatchType, []byte(patch), metav1.PatchOptions{}) // The pod does not exist.
		if writes := w.writes(); len(writes) != 1 {
			t.Errorf("writes are %v, want the one patch", writes)
		}
	}, "vGPU")
}

// TestNodeWithoutALedgerTakesNoPod checks that a node without a ledger takes no pod. Nodes that were in the cache
// before devices were enabled have no ledger until they change.
func TestNodeWithoutALedgerTakesNoPod(t *testing.T) {
	s := sharings["vGPU"]
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{s.node().Obj()}, Pods: []*v1.Pod{schedtest.MakePod().Name("p").Limit(s.asks).Group("g").Obj()},
		PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj()},
	})
	defer cluster.Close()
	s.switchOn(t, false)
	ssn := cluster.Open(framework.NewRegistry(), confOf(s, false))
	defer ssn.Close()
	if err := vcframework.NewStatement(ssn.Session.Session).Allocate(task(ssn, "p"), ssn.Nodes["n"]); err == nil {
		t.Error("a pod that asks for devices was placed on a node without a ledger of them")
	}
}

// TestVictimsKeepTheirDevices checks that victims keep their devices. Upstream removes a victim's devices in the API
// server, and assigns others when the eviction is reverted.
func TestVictimsKeepTheirDevices(t *testing.T) {
	in(t, false, running("r"), func(t *testing.T, w *harness, s sharing) {
		ssn := w.open()
		defer ssn.Close()
		before := ledger(ssn)
		statement := vcframework.NewStatement(ssn.Session.Session)
		if err := statement.Evict(task(ssn, "r"), "test"); err != nil {
			t.Fatal(err)
		}
		statement.Discard()
		if diff := cmp.Diff(before, ledger(ssn)); diff != "" {
			t.Errorf("ledger after the eviction was taken back (-want +got):\n%s", diff)
		}
		if got := task(ssn, "r").Pod.Annotations[s.holds]; got != s.has {
			t.Errorf("the victim's devices are %q, want %q as before", got, s.has)
		}
		if pods := ssn.NodeMap["n"].GetPods(); len(pods) != 1 {
			t.Errorf("the Kubernetes predicates see %d pods on the node, want the victim", len(pods))
		}
		if err := statement.Evict(task(ssn, "r"), "test"); err != nil {
			t.Fatal(err)
		}
		statement.Commit()
		w.unwritten()
	})
}

// TestAVictimThatStaysIsSeen checks that a victim that stays is seen. If no device is left for a victim whose
// eviction was reverted, upstream hides the victim from the Kubernetes predicates.
func TestAVictimThatStaysIsSeen(t *testing.T) {
	full := func(s sharing) []*v1.Pod {
		return []*v1.Pod{
			schedtest.MakePod().Name("r").Group("g").Limit(schedtest.Resources{config.VolcanoVGPUNumber: "2", config.VolcanoVGPUMemory: "16000"}).Node("n").Phase(v1.PodRunning).
				Annotation(s.holds, "GPU-n-0,NVIDIA,16000,0:GPU-n-1,NVIDIA,16000,0:").Obj(),
		}
	}
	in(t, false, full, func(t *testing.T, w *harness, _ sharing) {
		ssn := w.open()
		defer ssn.Close()
		statement := vcframework.NewStatement(ssn.Session.Session)
		if err := statement.Evict(task(ssn, "r"), "test"); err != nil {
			t.Fatal(err)
		}
		statement.Discard()
		if pods := ssn.NodeMap["n"].GetPods(); len(pods) != 1 {
			t.Errorf("the Kubernetes predicates see %d pods on the node, want the victim", len(pods))
		}
	}, "vGPU")
}

// TestVictimsOfGPUSharingMakeRoom checks that victims of GPU sharing make room: upstream's gpushare gives the GPU of
// a victim to the pod that waits for it.
func TestVictimsOfGPUSharingMakeRoom(t *testing.T) {
	pods := func(s sharing) []*v1.Pod {
		list := pending(1)(s)
		for i := range 2 {
			list = append(list, schedtest.MakePod().Name(fmt.Sprintf("r%d", i)).Group("g").Limit(s.asks).Node("n").Phase(v1.PodRunning).Annotation(s.holds, fmt.Sprint(i)).Obj())
		}
		return list
	}
	in(t, false, pods, func(t *testing.T, w *harness, s sharing) {
		ssn := w.open()
		defer ssn.Close()
		before := ledger(ssn)
		statement := vcframework.NewStatement(ssn.Session.Session)
		if err := statement.Evict(task(ssn, "r1"), "test"); err != nil {
			t.Fatal(err)
		}
		if err := statement.Pipeline(task(ssn, "p0"), "n", true); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"0": "ns-r0", "1": "ns-p0"}, ledger(ssn)); diff != "" {
			t.Errorf("ledger with the victim's GPU given away (-want +got):\n%s", diff)
		}
		statement.Discard()
		if diff := cmp.Diff(before, ledger(ssn)); diff != "" {
			t.Errorf("ledger after the eviction was taken back (-want +got):\n%s", diff)
		}
		w.unwritten()
	}, "whole GPUs")
}

// TestDevicesOfAFormerPlacementAreIgnored checks that the devices of a former placement are ignored. A pending pod
// may have the annotations of a placement that failed.
func TestDevicesOfAFormerPlacementAreIgnored(t *testing.T) {
	left := func(s sharing) []*v1.Pod {
		return []*v1.Pod{schedtest.MakePod().Name("p0").Group("g").Limit(s.asks).Annotation(s.holds, s.has).Obj()}
	}
	in(t, false, left, func(t *testing.T, w *harness, s sharing) {
		fresh := func() map[string]string {
			other := w.open()
			defer other.Close()
			delete(task(other, "p0").Pod.Annotations, s.holds)
			if err := vcframework.NewStatement(other.Session.Session).Allocate(task(other, "p0"), other.Nodes["n"]); err != nil {
				t.Fatal(err)
			}
			return ledger(other)
		}()
		ssn := w.open()
		defer ssn.Close()
		if value, ok := task(ssn, "p0").Pod.Annotations[s.holds]; ok {
			t.Errorf("the session's pending pod has devices: %q", value)
		}
		if err := vcframework.NewStatement(ssn.Session.Session).Allocate(task(ssn, "p0"), ssn.Nodes["n"]); err != nil {
			t.Fatal(err)
		}
		// Upstream chooses one of two equal devices at random.
		if diff := cmp.Diff(slices.Sorted(maps.Values(fresh)), slices.Sorted(maps.Values(ledger(ssn)))); diff != "" {
			t.Errorf("entries in the ledger (-want +got):\n%s", diff)
		}
	})
}
