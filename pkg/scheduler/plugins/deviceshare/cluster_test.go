// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const byDevices = `
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: deviceshare
`

// devicesAlone is a configuration in which no other plugin filters or scores nodes.
const devicesAlone = `
actions: allocate
tiers:
- plugins:
  - name: deviceshare
`

// testCluster is a cluster in memory with the plugin.
type testCluster struct {
	*sessiontest.Cluster
	registry *framework.Registry
	conf     string
	// scheduler keeps the plugins from session to session; nil before the first session.
	scheduler *sessiontest.Scheduler
}

func newTestCluster(t *testing.T, w sessiontest.ClusterSpec) *testCluster {
	t.Helper()
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...) // as a scheduler does before it reads pods
	registry := framework.NewRegistry()
	registry.RegisterPlugin(deviceshare.Spec())
	registry.RegisterAction(allocate.New())
	for _, action := range append(preempt.Upstreams(), preempt.New(nil), preempt.NewReclaim(nil)) {
		registry.RegisterAction(action)
	}
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	return &testCluster{Cluster: cluster, registry: registry, conf: byDevices}
}

// outcome is the result of a session.
type outcome struct {
	// decided has the node and the devices of each placed pod, such as "n1: gpu 0,1". said has the messages of pending
	// pods, and waits the nodes of pipelined pods.
	decided, said, waits map[string]string
	handed               map[string]sessiontest.Bind
}

// next opens a session with the plugins of the former sessions.
func (w *testCluster) next(t *testing.T) *sessiontest.Session {
	t.Helper()
	if w.scheduler == nil {
		w.scheduler = w.Scheduler(w.registry, w.conf)
		t.Cleanup(w.scheduler.Close)
	}
	return w.scheduler.Open()
}

// allocate runs a session.
func (w *testCluster) allocate(t *testing.T) outcome {
	t.Helper()
	return allocateIn(t, w.next(t))
}

// allocateIn runs the action in the session, and closes the session.
func allocateIn(t *testing.T, ssn *sessiontest.Session) outcome {
	t.Helper()
	defer ssn.Close()
	action, _ := vcframework.GetAction("allocate")
	ssn.Run(action)
	out := outcome{decisions(t, ssn), map[string]string{}, map[string]string{}, ssn.Handed()}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			out.waits[task.Name] = task.NodeName
		}
		for _, task := range job.TaskStatusIndex[api.Pending] {
			out.said[task.Name] = job.JobFitErrors
			if errs := job.NodesFitErrors[task.UID]; errs != nil {
				out.said[task.Name] += errs.Error()
			}
		}
	}
	return out
}

// machines returns nodes with boards of eight GPUs and four NICs: two GPUs and a NIC on each PCIe switch, and two
// switches on each NUMA node.
func machines(names ...string) (nodes []*v1.Node, devices []*schedulingv1alpha1.Device) {
	for _, name := range names {
		nodes = append(nodes, schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "96", "memory": "1Ti", "pods": "100"}).Obj())
		devices = append(devices, board(name))
	}
	return nodes, devices
}

func board(node string) *schedulingv1alpha1.Device {
	device := &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: node}}
	add := func(kind string, minor int32, numa, pcie int32, resources map[string]string) {
		info := schedulingv1alpha1.DeviceInfo{
			Type: schedulingv1alpha1.DeviceType(kind), UUID: fmt.Sprintf("%s-%s-%d", node, kind, minor), Minor: &minor, Health: true, Resources: v1.ResourceList{},
			Topology: &schedulingv1alpha1.DeviceTopology{SocketID: numa, NodeID: numa, PCIEID: fmt.Sprint(pcie)},
		}
		for name, amount := range resources {
			info.Resources[v1.ResourceName(name)] = resource.MustParse(amount)
		}
		device.Spec.Devices = append(device.Spec.Devices, info)
	}
	for minor := range int32(8) {
		add("gpu", minor, minor/4, minor/2, map[string]string{"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100", "koordinator.sh/gpu-memory": "80Gi"})
	}
	for nic := range int32(4) {
		add("rdma", nic, nic/2, nic, map[string]string{"koordinator.sh/rdma": "100"})
	}
	return device
}

// gang returns a PodGroup and its members, which request the resources.
func gang(name string, members int, resources schedtest.Resources, change ...func(*v1.Pod)) (*v1beta1.PodGroup, []*v1.Pod) {
	var pods []*v1.Pod
	limits := schedtest.Resources{"cpu": "1", "memory": "1Gi"}
	maps.Copy(limits, resources)
	for i := range members {
		pod := schedtest.MakePod().Group(name).Name(fmt.Sprintf("%s-%d", name, i)).Req(limits).Limit(limits).Obj()
		for _, do := range change {
			do(pod)
		}
		pods = append(pods, pod)
	}
	return schedtest.MakePodGroup().Name(name).MinMember(int32(members)).Obj(), pods
}

func annotated(key, value string) func(*v1.Pod) {
	return func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

// jointly adds a request for a NIC on each PCIe switch that has one of the pod's GPUs.
var jointly = annotated(schedulingv1alpha1.DeviceJointAllocateAnnotation, `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`)

// devicesOf returns the devices of an annotation, such as "gpu 0,1; rdma 0".
func devicesOf(t *testing.T, annotation string) string {
	t.Helper()
	var all map[string][]struct {
		Minor int32 `json:"minor"`
	}
	if err := json.Unmarshal([]byte(annotation), &all); err != nil {
		t.Fatalf("annotation %q: %v", annotation, err)
	}
	var texts []string
	for kind, devices := range all {
		var minors []string
		for _, d := range devices {
			minors = append(minors, fmt.Sprint(d.Minor))
		}
		texts = append(texts, kind+" "+strings.Join(minors, ","))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// decisions returns the node and the devices of each placed pod, such as "n1: gpu 0,1".
func decisions(t *testing.T, ssn *sessiontest.Session) map[string]string {
	t.Helper()
	decided := map[string]string{}
	for name, bind := range ssn.Handed() {
		name = strings.TrimPrefix(name, schedtest.Namespace+"/")
		decided[name] = bind.Node
		if annotation := bind.Decided[schedulingv1alpha1.DeviceAllocatedAnnotation]; annotation != "" {
			decided[name] += ": " + devicesOf(t, annotation)
		}
	}
	return decided
}

// runningWith returns a pod that runs on the node and has this percentage of each of the GPUs. Its request is for whole
// GPUs.
func runningWith(name, node, resources string, minors ...int) *v1.Pod {
	limits := schedtest.Resources{"cpu": "1", "koordinator.sh/gpu": fmt.Sprint(100 * max(1, len(minors)))}
	pod := schedtest.MakePod().Name(name).Node(node).Phase(v1.PodRunning).Req(limits).Limit(limits).Obj()
	var gpus []string
	for _, minor := range minors {
		gpus = append(gpus, fmt.Sprintf(`{"minor":%d,"resources":{"koordinator.sh/gpu-core":"%s","koordinator.sh/gpu-memory-ratio":"%s"}}`, minor, resources, resources))
	}
	annotated(schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[`+strings.Join(gpus, ",")+`]}`)(pod)
	return pod
}
