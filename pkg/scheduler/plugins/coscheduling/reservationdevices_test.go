// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// eightGPUs is the whole capacity of a node of gpuNodes.
var eightGPUs = schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "8"}

// gpuNodes has n nodes, and queue q with this capability.
func gpuNodes(n int, capability schedtest.Resources) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{Queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(capability).Weight(100).Obj()}}
	for i := range n {
		capacity := maps.Clone(eightGPUs)
		capacity["pods"] = "20"
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprint("n", i)).Capacity(capacity).Obj())
	}
	return w
}

// reservingDevices returns configurations with plugin deviceshare and a plugin that enforces queue capabilities.
func reservingDevices() map[string]string {
	conf := after5m(100) + "  - name: deviceshare\n"
	return map[string]string{"proportion": conf, "capacity": strings.Replace(conf, "name: proportion", "name: capacity", 1)}
}

// gpuGang adds a gang whose members take eight GPUs each. If node is set, the members run there.
func (w *simulation) gpuGang(name, queue, node string, members, minimum int) {
	group := schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(minimum))
	if node != "" {
		group.Phase(v1beta1.PodGroupRunning)
	}
	made := group.Obj()
	made.CreationTimestamp = metav1.Now()
	w.cluster.Cache().AddPodGroupV1beta1(made)
	for i := range members {
		pod := schedtest.MakePod().Name(fmt.Sprint(name, "-", i)).Group(name).Req(eightGPUs).Limit(eightGPUs)
		if node != "" {
			pod.Node(node).Phase(v1.PodRunning)
		}
		w.add(pod.Obj())
	}
}

// TestReservationsOfQueuesWithALimitOfDevices: pods on the reserved nodes do not count against the queue's limit that
// plugin deviceshare enforces, because they have ended when the gang is placed.
func TestReservationsOfQueuesWithALimitOfDevices(t *testing.T) {
	tests := map[string]struct {
		// own is the queue of the pod on n0. n1 has a pod of another queue.
		own              string
		members, minimum int
		// before and after change the cluster before and after nodes are reserved. frees removes the pods from n0.
		before, after, frees func(*lingering)
	}{
		"its own pods are on the nodes":               {own: "q", members: 1, minimum: 1},
		"more members wait than the minimum needs":    {own: schedtest.Queue, members: 2, minimum: 1},
		"its own pods, and more members":              {own: "q", members: 2, minimum: 1},
		"its own pods are deleted before it begins":   {own: "q", members: 1, minimum: 1, before: deletesOwn, frees: freesDeleted},
		"its own pods are deleted after it has begun": {own: "q", members: 1, minimum: 1, after: deletesOwn, frees: freesDeleted},
	}
	for plugin, conf := range reservingDevices() {
		for name, tt := range tests {
			t.Run(plugin+", "+name, func(t *testing.T) {
				in(t, gpuNodes(2, schedtest.Resources{"nvidia.com/gpu": "8"}), conf, func(t *testing.T, w *simulation) {
					l := &lingering{stream: w.stream(0)}
					do := func(change func(*lingering)) {
						if change != nil {
							change(l)
						}
					}
					w.gpuGang("own", tt.own, "n0", 1, 1)
					w.gpuGang("other", schedtest.Queue, "n1", 1, 1)
					w.gpuGang("big", "q", "", tt.members, tt.minimum)
					do(tt.before)
					w.untilReserved("big")
					do(tt.after)
					w.pass(10*time.Minute, time.Minute)
					if got := strings.Join(w.reserved(), " "); got != "n0" {
						t.Fatalf("the reserved nodes are %q, want n0: %s", got, w.condition("big", Reserved).Message)
					}
					if do(tt.frees); tt.frees == nil {
						w.remove("own-0")
					}
					w.session()
					if placed := w.bound["big-0"] + w.bound["big-1"]; placed != w.sessions {
						t.Errorf("the gang is not placed on the node: %s", w.condition("big", "Unschedulable").Message)
					}
				})
			})
		}
	}
}

func deletesOwn(l *lingering) { l.linger("own-0") }

func freesDeleted(l *lingering) { l.gone() }

// TestAQueueKeepsDevicesForItsReservation: the gang's members count against the queue's limit, and pods on the reserved
// nodes do not.
func TestAQueueKeepsDevicesForItsReservation(t *testing.T) {
	for plugin, conf := range reservingDevices() {
		// The queue plugins do not count this resource name.
		for cores, want := range map[string]bool{"1500": false, "1600": true} {
			t.Run(plugin+", "+cores, func(t *testing.T) {
				in(t, gpuNodes(3, schedtest.Resources{"koordinator.sh/gpu-core": cores}), conf, func(t *testing.T, w *simulation) {
					w.gpuGang("own", "q", "n0", 1, 1)
					w.gpuGang("other", schedtest.Queue, "n1", 1, 1)
					w.gpuGang("another", schedtest.Queue, "n2", 1, 1)
					w.gpuGang("big", "q", "", 1, 1)
					w.untilReserved("big")
					w.remove("own-0")
					w.remove("another-0")
					w.cannotCome("big-0")
					w.gpuGang("new", "q", "", 1, 1)
					if w.session(); w.runs("new") != want {
						t.Errorf("another gang of the queue runs: %t, want %t: %s", w.runs("new"), want, w.condition("new", "Unschedulable").Message)
					}
				})
			})
		}
	}
}

// TestAQueueKeepsDevicesWhenItIsAskedForSeveralPods checks that a queue admits several pods together only if their
// devices fit beside those of the gang with the reservation.
func TestAQueueKeepsDevicesWhenItIsAskedForSeveralPods(t *testing.T) {
	for plugin, conf := range reservingDevices() {
		for cores, want := range map[string]bool{"2300": false, "2400": true} {
			t.Run(plugin+", "+cores, func(t *testing.T) {
				in(t, gpuNodes(4, schedtest.Resources{"koordinator.sh/gpu-core": cores}), conf, func(t *testing.T, w *simulation) {
					w.gpuGang("own", "q", "n0", 1, 1)
					for _, node := range []string{"n1", "n2", "n3"} {
						w.gpuGang("on-"+node, schedtest.Queue, node, 1, 1)
					}
					w.gpuGang("big", "q", "", 1, 1)
					w.untilReserved("big")
					w.remove("own-0")
					w.cannotCome("big-0")
					w.gpuGang("new", "q", "", 2, 2)
					w.session(func(ssn *sessiontest.Session) {
						use, tasks := &ssn.QueueUse, slices.Collect(maps.Values(ssn.Jobs["ns/new"].Tasks))
						if got := use.Admits(use.Ask(ssn.Queues["q"], nil).With(tasks...)); got != want {
							t.Errorf("the queue admits the two pods: %t, want %t", got, want)
						}
					})
				})
			})
		}
	}
}

// cannotCome changes the pod so that it fits no node.
func (w *simulation) cannotCome(name string) {
	w.update(name, func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"there": "is none"} })
}

// TestPodsOfOtherQueuesFreeNothingOfAQueue: pods of other queues on the reserved nodes release nothing of the gang's
// queue when they end.
func TestPodsOfOtherQueuesFreeNothingOfAQueue(t *testing.T) {
	for capability, want := range map[string]bool{"19": false, "20": true} {
		t.Run(capability, func(t *testing.T) {
			given := nodes(6, "4")
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores(capability)).Weight(100).Obj()}
			in(t, given, after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				w.stays("own", "q", "n4", "4")
				w.stays("leaves", schedtest.Queue, "n5", "4")
				w.arrives("big", "q", 2, "4")
				w.untilReserved("big")
				for i := range 4 {
					if name := fmt.Sprint("n", i); !strings.Contains(strings.Join(w.reserved(), " "), name) {
						w.remove(fmt.Sprint("full-", i))
					}
				}
				for i := range 2 {
					w.cannotCome(fmt.Sprint("big-", i))
				}
				w.arrives("new", "q", 2, "4")
				if w.session(); w.runs("new") != want {
					t.Errorf("another gang of the queue runs: %t, want %t: %s", w.runs("new"), want, w.condition("new", "Unschedulable").Message)
				}
			})
		})
	}
}

// TestPodsOfASiblingThatAreBeingDeleted: pods of a sibling queue are terminating. The full parent queue then has room
// again, but the gang's own queue has no more room than before. This holds when nodes are reserved and while they
// drain.
func TestPodsOfASiblingThatAreBeingDeleted(t *testing.T) {
	hierarchy := strings.Replace(strings.Replace(after5m(50), "name: proportion", "name: capacity\n    enableHierarchy: true", 1), "  - name: priority\n", "", 1)
	queue := func(name, parent, capability string, weight int32) *v1beta1.Queue {
		made := schedtest.MakeQueue().Name(name).Weight(weight).Obj()
		made.Spec.Parent = parent
		if capability != "" {
			made.Spec.Capability = v1.ResourceList{v1.ResourceCPU: *cpus(capability)}
		}
		return made
	}
	for capability, want := range map[string]string{"12": "n0 n1", "11": "n0 n2"} {
		t.Run("its own queue has "+capability, func(t *testing.T) {
			given := nodes(4, "4")
			given.Queues = []*v1beta1.Queue{queue("root", "", "", 1), queue("p", "root", "12", 100), queue("q", "p", capability, 100), queue("sibling", "p", "", 1)}
			in(t, given, hierarchy, func(t *testing.T, w *simulation) {
				l := &lingering{stream: w.stream(0)}
				for i, queue := range []string{"sibling", "sibling", "q", schedtest.Queue} {
					name := fmt.Sprint("full", i)
					w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue(queue).Phase(v1beta1.PodGroupRunning).Obj())
					w.add(schedtest.MakePod().Name(name + "-0").Group(name).Node(fmt.Sprint("n", i)).Phase(v1.PodRunning).Req(cores("4")).Obj())
				}
				l.linger("full0-0")
				l.linger("full1-0")
				w.arrives("big", "q", 2, "4")
				w.pass(10*time.Minute, time.Minute)
				if got := strings.Join(w.reserved(), " "); got != want {
					t.Errorf("the reserved nodes are %q, want %q: %s; %s", got, want, w.condition("big", Reserved).Message, w.condition("big", "Unschedulable").Message)
				}
			})
		})
	}
}
