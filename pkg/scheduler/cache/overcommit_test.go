// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// cpuAmounts are the amounts of CPU in a session, in milli-CPU.
type cpuAmounts struct {
	Tasks            map[string]float64
	Allocated, Total float64
	Used, Idle       map[string]float64
	// Releasing has the nodes with pods that are being released.
	Releasing map[string]float64
}

func cpuIn(snapshot *api.ClusterInfo) cpuAmounts {
	a := cpuAmounts{Tasks: map[string]float64{}, Used: map[string]float64{}, Idle: map[string]float64{}}
	job := snapshot.Jobs[gang]
	for _, task := range job.Tasks {
		a.Tasks[task.Name] = task.Resreq.MilliCPU
	}
	a.Allocated, a.Total = job.Allocated.MilliCPU, job.TotalRequest.MilliCPU
	for name, node := range snapshot.Nodes {
		a.Used[name], a.Idle[name] = node.Used.MilliCPU, node.Idle.MilliCPU
		if node.Releasing.MilliCPU != 0 {
			a.Releasing = map[string]float64{name: node.Releasing.MilliCPU}
		}
	}
	return a
}

// TestPodsHoldNoMoreThanTheirNodesHave checks that pods hold no more than their nodes have. A pod may name a node and
// request more than it has, and only a kubelet rejects it.
func TestPodsHoldNoMoreThanTheirNodesHave(t *testing.T) {
	runs := func(i int, node, cpu string) *schedtest.PodBuilder {
		return pod(i).Req(schedtest.Resources{"cpu": cpu}).Node(node).Phase(v1.PodRunning)
	}
	created := func(pod *v1.Pod, seconds int64) *v1.Pod {
		pod.CreationTimestamp = metav1.Unix(seconds, 0)
		return pod
	}
	lessAllocatable := schedtest.MakeNode().Name("n").Obj()
	lessAllocatable.Status.Allocatable = v1.ResourceList{}
	noCapacity := schedtest.MakeNode().Name("n").Obj()
	noCapacity.Status.Capacity = nil
	tests := map[string]struct {
		objects []runtime.Object
		want    cpuAmounts
	}{
		"within what it has": {
			objects: []runtime.Object{runs(0, "n", "3").Obj(), runs(1, "n", "5").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 3000, "p1": 5000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"one asks for more": {
			objects: []runtime.Object{runs(0, "n", "1e15").Obj(), pod(1).Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000, "p1": 1000}, Allocated: 8000, Total: 9000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"all together ask for more: those that were created first hold it": {
			objects: []runtime.Object{created(runs(0, "n", "6").Obj(), 3), created(runs(1, "n", "5").Obj(), 1), created(runs(2, "n", "1").Obj(), 2)},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 2000, "p1": 5000, "p2": 1000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"another one's pod holds it": {
			objects: []runtime.Object{created(runs(0, "n", "1e15").Group("other").Obj(), 1), created(runs(1, "n", "5").Obj(), 2)},
			want:    cpuAmounts{Tasks: map[string]float64{"p1": 0}, Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a pod that is leaving": {
			objects: []runtime.Object{leavesSoon(runs(0, "n", "1e15").Obj())},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}, Releasing: map[string]float64{"n": 8000}},
		},
		"a pod that is being deleted and stays": {
			objects: []runtime.Object{runs(0, "n", "1e15").Terminating().Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a node that does not exist": {
			objects: []runtime.Object{runs(0, "nowhere", "1e15").Obj(), pod(1).Node("nowhere").Obj(), runs(2, "n", "3").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 0, "p1": 0, "p2": 3000}, Allocated: 3000, Total: 3000,
				Used: map[string]float64{"n": 3000}, Idle: map[string]float64{"n": 5000}},
		},
		"a node that has lost devices and still has them by its capacity": {
			objects: []runtime.Object{lessAllocatable, runs(0, "n", "8").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": -8000}},
		},
		"what a kubelet has granted is held in full, and first": {
			objects: []runtime.Object{created(startedWith(runs(0, "n", "9").Obj(), "9"), 2), created(runs(1, "n", "5").Obj(), 1)},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 9000, "p1": 0}, Allocated: 9000, Total: 9000,
				Used: map[string]float64{"n": 9000}, Idle: map[string]float64{"n": -1000}},
		},
		"a kubelet has granted less than the pod was resized to": {
			objects: []runtime.Object{startedWith(runs(0, "n", "1e6").Obj(), "1")},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a started pod is resized before its containers run": {
			objects: []runtime.Object{startedPod(runs(0, "n", "1e6").Obj())},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"what is granted to a younger pod comes before what an older one was resized to": {
			objects: []runtime.Object{created(startedWith(runs(0, "n", "1e6").Obj(), "1"), 1), created(startedWith(runs(1, "n", "5").Obj(), "5"), 2)},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 3000, "p1": 5000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"what a started pod was resized to comes before a pod that has not started": {
			objects: []runtime.Object{created(startedWith(runs(0, "n", "6").Obj(), "1"), 2), created(runs(1, "n", "5").Obj(), 1)},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 6000, "p1": 2000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a pod holds no more than it requests of what its status names": {
			objects: []runtime.Object{startedWith(runs(0, "n", "3").Obj(), "1", "20"), runs(1, "n", "9").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 3000, "p1": 5000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a status of a pod that no kubelet has started": {
			objects: []runtime.Object{withGrants(runs(0, "n", "9").Obj(), "9")},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"a node that reports no capacity": {
			objects: []runtime.Object{noCapacity, runs(0, "n", "8").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
		"such a node, and one asks for more": {
			objects: []runtime.Object{noCapacity, runs(0, "n", "1e15").Obj()},
			want: cpuAmounts{Tasks: map[string]float64{"p0": 8000}, Allocated: 8000, Total: 8000,
				Used: map[string]float64{"n": 8000}, Idle: map[string]float64{"n": 0}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				w.add(schedtest.MakePodGroup().Name("other").Obj())
				w.add(tt.objects...)
				full, _, _ := w.cache.SessionSnapshot()
				again, _, _ := w.cache.SessionSnapshot()
				for kind, snapshot := range map[string]*api.ClusterInfo{"upstream's": w.cache.Snapshot(), "a session's": full, "the next session's": again} {
					if diff := cmp.Diff(tt.want, cpuIn(snapshot)); diff != "" {
						t.Errorf("%s snapshot (-want +got):\n%s", kind, diff)
					}
				}
			})
		})
	}
}

// TestDevicesThatANodeDoesNotHaveDoNotCount checks that requests for devices that a node does not have do not count.
// The pod's other requests count.
func TestDevicesThatANodeDoesNotHaveDoNotCount(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.add(pod(0).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "64"}).Node("n").Phase(v1.PodRunning).Obj())
		snapshot, _, _ := w.cache.SessionSnapshot()
		job := snapshot.Jobs[gang]
		if gpus, cpu := job.Allocated.Get("nvidia.com/gpu"), job.Allocated.MilliCPU; gpus != 0 || cpu != 1000 {
			t.Errorf("the gang holds %g thousandths of GPUs and %g of cpu, want 0 and 1000", gpus, cpu)
		}
	})
}

// leavesSoon deletes the pod with a grace period that ends 30 s after the start of the clock in a synctest bubble.
func leavesSoon(pod *v1.Pod) *v1.Pod {
	due := metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC))
	pod.DeletionTimestamp = &due
	return pod
}

func startedPod(pod *v1.Pod) *v1.Pod {
	pod.Status.StartTime = &metav1.Time{}
	return pod
}

// startedWith marks the pod as started by a kubelet that granted its containers these amounts of cpu.
func startedWith(pod *v1.Pod, cpus ...string) *v1.Pod { return withGrants(startedPod(pod), cpus...) }

func withGrants(pod *v1.Pod, cpus ...string) *v1.Pod {
	for i, cpu := range cpus {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, grant(fmt.Sprint("c", i), schedtest.Resources{"cpu": cpu}))
	}
	return pod
}

// grant returns the status of a container that runs with the resources.
func grant(name string, resources schedtest.Resources) v1.ContainerStatus {
	requests := schedtest.MakePod().Req(resources).Obj().Spec.Containers[0].Resources
	return v1.ContainerStatus{Name: name, Resources: &requests, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

// TestGrantsOfAllPartsOfAPod checks that a started pod holds the cpu and memory that were granted to all of its running
// containers, including sidecars, and its overhead. Both pods of the node request more than the node has. The older pod
// holds the resources that are left.
func TestGrantsOfAllPartsOfAPod(t *testing.T) {
	has := schedtest.Resources{"cpu": "1", "memory": "1Gi"}
	over := schedtest.Resources{"cpu": "1e6", "memory": "1Ei"}
	tests := map[string]struct {
		change func(*v1.Pod)
		// want is how many times the younger pod holds the resources in `has`.
		want float64
	}{
		"a container":       {func(*v1.Pod) {}, 1},
		"another container": {func(p *v1.Pod) { addStatus(&p.Status.ContainerStatuses, has, nil) }, 2},
		"a sidecar":         {func(p *v1.Pod) { addStatus(&p.Status.InitContainerStatuses, has, nil) }, 2},
		"the overhead":      {func(p *v1.Pod) { p.Spec.Overhead = grant("", has).Resources.Requests }, 2},
		"a container that has ended": {func(p *v1.Pod) {
			addStatus(&p.Status.InitContainerStatuses, has, &v1.ContainerStateTerminated{})
		}, 1},
		"a kubelet that reports none": {func(p *v1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 2)
				older := startedPod(pod(0).Req(over).Node("n").Phase(v1.PodRunning).Obj())
				older.Status.ContainerStatuses = []v1.ContainerStatus{grant("c", has)}
				older.CreationTimestamp = metav1.Unix(1, 0)
				younger := startedPod(pod(1).Req(over).Node("n").Phase(v1.PodRunning).Obj())
				younger.Status.ContainerStatuses = []v1.ContainerStatus{grant("c", has)}
				tt.change(younger)
				younger.CreationTimestamp = metav1.Unix(2, 0)
				w.add(older, younger)
				snapshot, _, _ := w.cache.SessionSnapshot()
				got := map[string][2]float64{"node": {snapshot.Nodes["n"].Used.MilliCPU, snapshot.Nodes["n"].Used.Memory}}
				for _, task := range snapshot.Jobs[gang].Tasks {
					got[task.Name] = [2]float64{task.Resreq.MilliCPU, task.Resreq.Memory}
				}
				const cpu, memory = 1000, 1 << 30
				want := map[string][2]float64{
					"node": {8 * cpu, 16 * memory},
					"p0":   {(8 - tt.want) * cpu, (16 - tt.want) * memory},
					"p1":   {tt.want * cpu, tt.want * memory},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("cpu and memory that they hold (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func addStatus(to *[]v1.ContainerStatus, has schedtest.Resources, ended *v1.ContainerStateTerminated) {
	status := grant("other", has)
	status.State.Terminated = ended
	*to = append(*to, status)
}

// TestDevicesInUseAreHeldThoughTheNodeHasLostThem checks that devices in use stay counted although the node has lost
// them. A kubelet that restarts reports no devices until their device plugin has registered. If the devices in use
// exhaust a queue's limit, the queue must not admit another gang in the meantime.
func TestDevicesInUseAreHeldThoughTheNodeHasLostThem(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		with := schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "8", "pods": "110"}).Obj()
		w.add(with)
		w.gangOf(0, 1)
		w.add(startedPod(pod(0).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Node("n").Phase(v1.PodRunning).Obj()))
		for _, node := range []*v1.Node{with, schedtest.MakeNode().Name("n").Obj()} {
			w.add(node)
			snapshot, _, _ := w.cache.SessionSnapshot()
			if gpus := snapshot.Jobs[gang].Allocated.Get("nvidia.com/gpu"); gpus != 8000 {
				t.Errorf("the gang holds %g thousandths of GPUs, want 8000", gpus)
			}
		}
	})
}

// TestStartedPodsHoldNoDevicesThatTheirNodeNeverHad checks that started pods hold no devices that their node never
// had. A kubelet ignores requests for devices that its node does not list, and starts the pods. When the node lists
// some later, the pods together hold no more than these.
func TestStartedPodsHoldNoDevicesThatTheirNodeNeverHad(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 2)
		for i := range 2 {
			w.add(startedPod(pod(i).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1000000"}).Node("n").Phase(v1.PodRunning).Obj()))
		}
		for gpus, node := range []*v1.Node{
			schedtest.MakeNode().Name("n").Obj(),
			schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "1", "pods": "110"}).Obj(),
		} {
			w.add(node)
			snapshot, _, _ := w.cache.SessionSnapshot()
			job, used := snapshot.Jobs[gang], snapshot.Nodes["n"].Used
			want := float64(1000 * gpus)
			if job.Allocated.Get("nvidia.com/gpu") != want || used.Get("nvidia.com/gpu") != want || job.Allocated.MilliCPU != 2000 {
				t.Errorf("the gang holds %v of the %v in use on a node with %d GPUs, want no more GPUs, and 2 cpu", job.Allocated, used, gpus)
			}
		}
	})
}

// TestPodsHoldTheirRequestsWhenTheirNodeAppears checks that pods hold their whole requests when their node appears:
// the reduced amounts of an earlier session do not stay.
func TestPodsHoldTheirRequestsWhenTheirNodeAppears(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.add(pod(0).Node("late").Phase(v1.PodRunning).Obj())
		allocated := func() float64 {
			snapshot, _, _ := w.cache.SessionSnapshot()
			return snapshot.Jobs[gang].Allocated.MilliCPU
		}
		node := schedtest.MakeNode().Name("late").Obj()
		before := allocated()
		w.list(node) // The informer's store has the node, but no handler has been called.
		listed := allocated()
		w.add(node)
		if diff := cmp.Diff([]float64{0, 1000, 1000}, []float64{before, listed, allocated()}); diff != "" {
			t.Errorf("thousandths of cpu that it holds (-want +got):\n%s", diff)
		}
		w.cache.books.Lock()
		defer w.cache.books.Unlock()
		for _, task := range slices.Collect(maps.Values(w.cache.books.Jobs.Get(gang).Tasks)) {
			if task.Resreq.MilliCPU != 1000 {
				t.Errorf("the cache's own task asks for %g thousandths of cpu, want 1000", task.Resreq.MilliCPU)
			}
		}
	})
}
